// Code as g++ compiles it, loaded as models are, over our regions.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/backends/aoti/runtime/container/shared_object.h"
#include "pteron/backends/aoti/shims/failed_check.h"
#include "pteron/backends/cpu/runtime/openmp/region.h"
#include "pteron/backends/cpu/runtime/openmp/thread_count.h"
#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/platform/sha256.h"

namespace pteron::cpu::openmp {
namespace {

// One of the shared objects built beside the test.
Result<std::shared_ptr<aoti::SharedObject>> load_shared_object(const std::string& name) {
  std::ifstream file("backends/cpu/runtime/openmp/tests/lib" + name + ".so", std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  return aoti::SharedObject::load(bytes, sha256(bytes));
}

class OpenMpShims : public testing::Test {
 protected:
  void SetUp() override {
    auto object = value_of(load_shared_object("openmp_constructs"));
    object_ = object;
  }

  template <typename Function>
  Function* find(const char* name) {
    void* address = object_->symbol(name);
    EXPECT_NE(address, nullptr) << name;
    return reinterpret_cast<Function*>(address);
  }

  std::shared_ptr<aoti::SharedObject> object_;
};

TEST_F(OpenMpShims, EveryNameOfTheListIsCalledHere) {
  const std::set<std::string> imported(object_->imported().begin(), object_->imported().end());
  const std::set<std::string> listed = {
#define OPENMP_SHIM(name, version) #name,
#include "pteron/backends/cpu/runtime/openmp/openmp.inc"
#undef OPENMP_SHIM
      "aoti_torch_check"};
  EXPECT_EQ(imported, listed);
}

TEST(LinkedWithLibgomp, ASharedObjectKeepsIt) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not see the barriers of libgomp";
#endif
  auto object = value_of(load_shared_object("openmp_linked"));
  EXPECT_EQ(object->imported(), std::vector<std::string>{"aoti_torch_check"});
  using SumOfSquares = int64_t(int64_t, int);
  auto* sum = reinterpret_cast<SumOfSquares*>(object->symbol("sum_of_squares"));
  ASSERT_NE(sum, nullptr);
  EXPECT_EQ(sum(1000, 3), 332833500);

  // Its threads are about to sleep in its code.
  object.reset();
  std::ifstream maps("/proc/self/maps");
  const std::string mapped((std::istreambuf_iterator<char>(maps)),
                           std::istreambuf_iterator<char>());
  EXPECT_NE(mapped.find("libgomp.so"), std::string::npos);
  EXPECT_EQ(mapped.find("pteron_model_"), std::string::npos);
}

TEST_F(OpenMpShims, LoopsShareTheirWork) {
  auto* sum_of_squares = find<int64_t(int64_t, int)>("sum_of_squares");
  for (int threads = 1; threads <= 7; ++threads) {
    EXPECT_EQ(sum_of_squares(1000, threads), 332833500) << threads;
  }
}

TEST_F(OpenMpShims, LoopsOfARegionWaitForEachOther) {
  auto* two_loops = find<int(float*, float*, int64_t, int64_t, int)>("two_loops");
  constexpr int64_t kRows = 37, kColumns = 11;
  for (int threads = 1; threads <= 7; ++threads) {
    std::vector<float> data(kRows * kColumns), copy(kRows * kColumns);
    EXPECT_EQ(two_loops(data.data(), copy.data(), kRows, kColumns, threads), threads);
    EXPECT_EQ(data[0], -1.0f);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        ASSERT_EQ(copy[r * kColumns + c], static_cast<float>(kRows - 1 - r + c));
      }
    }
  }
}

TEST_F(OpenMpShims, CriticalSectionsLetOneIn) {
  auto* locked_counts = find<void(int64_t*, int64_t*, long double*, int)>("locked_counts");
  int64_t unnamed = 0, named = 0;
  long double atomic = 0;
  locked_counts(&unnamed, &named, &atomic, 4);
  EXPECT_EQ(unnamed, 4000);
  EXPECT_EQ(named, 4000);
  EXPECT_EQ(atomic, 4000.0L);
}

TEST_F(OpenMpShims, CriticalSectionsThatOthersAreInAreFreeInAChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer takes a child's threads for its parent's";
#endif
  auto* locked_counts = find<void(int64_t*, int64_t*, long double*, int)>("locked_counts");
  const auto count = [&] {
    int64_t unnamed = 0, named = 0;
    long double atomic = 0;
    locked_counts(&unnamed, &named, &atomic, 4);
    return unnamed == 4000 && named == 4000 && atomic == 4000.0L;
  };
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) count();
  });
  for (int i = 0; i < 30 && !HasFailure(); ++i) {
    usleep(500);
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      _exit(count() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
  EXPECT_TRUE(count());
}

TEST_F(OpenMpShims, Settings) {
  int max = 0, processors = 0, inside = 0, outside = 1;
  find<void(int*, int*, int*, int*)>("settings")(&max, &processors, &inside, &outside);
  EXPECT_EQ(max, 5);
  EXPECT_EQ(processors, num_processors());
  EXPECT_TRUE(inside);
  EXPECT_FALSE(outside);
  EXPECT_EQ(max_threads(), 5);
  set_max_threads(default_threads());
}

TEST_F(OpenMpShims, AFailedCheckEndsTheRunAndNotTheProcess) {
  using Gather = void(const float*, int64_t, const int64_t*, int64_t, float*, int);
  auto* gather = find<Gather>("gather");
  std::vector<float> table(100);
  std::iota(table.begin(), table.end(), 0.0f);
  std::vector<int64_t> indices(5000);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i % 100);
  for (int threads = 1; threads <= 5; ++threads) {
    for (const size_t wrong : {size_t{0}, size_t{2499}, indices.size() - 1}) {
      std::vector<float> rows(indices.size(), -1.0f);
      std::vector<int64_t> some = indices;
      some[wrong] = 100;
      const auto run = [&] {
        gather(table.data(), 100, some.data(), static_cast<int64_t>(some.size()), rows.data(),
               threads);
      };
      run();
      ASSERT_TRUE(aoti::run_has_failed());
      // What is left of the failed run does nothing.
      rows.assign(rows.size(), -1.0f);
      run();
      EXPECT_EQ(*std::max_element(rows.begin(), rows.end()), -1.0f);
      const Error error = aoti::take_run_failure();
      EXPECT_EQ(error, Error::InvalidArgument);
      EXPECT_NE(error.message().find("index out of bounds: 0 <= index < size (gather, "),
                std::string::npos)
          << error.message();
      EXPECT_FALSE(aoti::run_has_failed());
      some = indices;
      run();
      EXPECT_FALSE(aoti::run_has_failed());
      for (size_t i = 0; i < rows.size(); ++i) {
        ASSERT_EQ(rows[i], table[static_cast<size_t>(some[i])] + 1.0f);
      }
    }
  }
}

}  // namespace
}  // namespace pteron::cpu::openmp
