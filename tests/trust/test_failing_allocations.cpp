// A program with compiled code: each allocation of loading and running fails once. Then there is an
// error, and all is as before: what was taken is given back, and the next try works.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/allocation_meter.h"

using pteron::testing::FailingAllocation;

// Memory that is not operator new's; the linker's --wrap puts these in place.
extern "C" {

int __real_posix_memalign(void** data, size_t alignment, size_t nbytes);
void* __real_aligned_alloc(size_t alignment, size_t nbytes);
void* __real_mmap(void* address, size_t nbytes, int protection, int flags, int file, off_t offset);
int __real_memfd_create(const char* name, unsigned flags);

int __wrap_posix_memalign(void** data, size_t alignment, size_t nbytes) {
  return FailingAllocation::is_due() ? ENOMEM : __real_posix_memalign(data, alignment, nbytes);
}
void* __wrap_aligned_alloc(size_t alignment, size_t nbytes) {
  return FailingAllocation::is_due() ? nullptr : __real_aligned_alloc(alignment, nbytes);
}
void* __wrap_mmap(void* address, size_t nbytes, int protection, int flags, int file, off_t offset) {
  if (!FailingAllocation::is_due()) {
    return __real_mmap(address, nbytes, protection, flags, file, offset);
  }
  errno = ENOMEM;
  return MAP_FAILED;
}
int __wrap_memfd_create(const char* name, unsigned flags) {
  if (!FailingAllocation::is_due()) return __real_memfd_create(name, flags);
  errno = ENOMEM;
  return -1;
}

}  // extern "C"

namespace pteron {
namespace {

constexpr int64_t kTooMany = 20'000;  // tries that each find one more allocation never end

std::ptrdiff_t count_files(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

// The program, its weights and its code.
int count_mappings() {
  int count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    count += line.find("allocating_model") != line.npos || line.find("pteron_model") != line.npos;
  }
  return count;
}

// What a process holds.
struct Held {
  int64_t nbytes = testing::live_nbytes();
  std::ptrdiff_t descriptors = count_files("/proc/self/fd");
  std::ptrdiff_t files = count_files(std::getenv("TMPDIR"));
  int mappings = count_mappings();
};

// An error that says so. A library's in generated code is passed on.
::testing::AssertionResult is_for_memory(const Error& error) {
  if (error == Error::MemoryAllocationFailed || error == Error::OutOfResources ||
      error == Error::AccessFailed || error.message().find("bad_alloc") != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << Error::name(error.code()) << ": " << error.message();
}

// Made before anything fails.
const std::string kPath = "tests/trust/allocating_model.pte";
const LoadOptions kOptions = [] {
  LoadOptions options;
  options.verification = Verification::Required;
  options.data_paths = {"tests/trust/allocating_model.ptd"};
  return options;
}();

Result<std::shared_ptr<const Program>> load() { return Program::load(kPath, kOptions); }

std::vector<std::string> expected;  // results, if not empty

Error run(Method& method) {
  static int64_t indices[4 * 12];
  for (int64_t i = 0; i < 4 * 12; ++i) indices[i] = i % 16;
  static const int64_t sizes[] = {4, 12};
  PTERON_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::make(ScalarType::Long, sizes, indices));
  PTERON_RETURN_IF_ERROR(method.set_input(0, EValue(tensor)));
  PTERON_RETURN_IF_ERROR(method.execute());
  for (size_t i = 0; i < expected.size(); ++i) {
    const Tensor& output = method.get_output(i).tensor();
    PTERON_CHECK_OR_RETURN(output.nbytes() == expected[i].size() &&
                               std::memcmp(output.data(), expected[i].data(), output.nbytes()) == 0,
                           Error::Internal, "output %zu is another", i);
  }
  return Error::Ok;
}

Error load_and_run(std::vector<std::string>* outputs = nullptr) {
  PTERON_ASSIGN_OR_RETURN(const auto program, load());
  PTERON_ASSIGN_OR_RETURN(const auto method, program->load_method("forward"));
  PTERON_RETURN_IF_ERROR(run(*method));
  for (size_t i = 0; outputs && i < method->outputs_size(); ++i) {
    const Tensor& tensor = method->get_output(i).tensor();
    outputs->emplace_back(static_cast<const char*>(tensor.data()), tensor.nbytes());
  }
  return Error::Ok;
}

// How many allocations `step` makes; each of them fails once. `step` undoes what it did, except that
// a member of a parallel region that fails loses what it had taken: no more than `lost_nbytes` in all.
int64_t fail_each(const char* name, const std::function<Error()>& step,
                  int64_t lost_nbytes = 4096) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(step().ok()) << name;
  const Held before;
  int64_t count = 0;
  for (; count < kTooMany; ++count) {
    Error error = Error::Ok;
    bool failed = false;
    {
      const FailingAllocation failing(count);
      EXPECT_NO_THROW(error = step()) << name << ", allocation " << count;
      failed = failing.failed();
    }
    if (!failed) break;
    // Some have another way: a cache is emptied, or code is opened from a file.
    EXPECT_TRUE(error.ok() || is_for_memory(error)) << name << ", allocation " << count;
    const Error again = step();
    EXPECT_TRUE(again.ok()) << name << " after allocation " << count << ": " << again.message();
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_LT(count, kTooMany);
  const Held after;
  EXPECT_EQ(after.descriptors, before.descriptors) << name;
  EXPECT_EQ(after.mappings, before.mappings) << name;
  EXPECT_EQ(after.files, before.files) << name;
  // A leak would be in each of the tries.
  EXPECT_LT(after.nbytes - before.nbytes, lost_nbytes + 8 * count) << name;
  std::printf("%s: %lld allocations\n", name, static_cast<long long>(count));
  return count;
}

class FailingAllocations : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer has an operator new of its own";
#endif
    std::string folder = ::testing::TempDir() + "/code.XXXXXX";
    ASSERT_TRUE(::mkdtemp(folder.data()));
    ::setenv("TMPDIR", folder.c_str(), /*overwrite=*/1);
  }
};

enum Outcome { kRight, kDidNotFail, kWrong };

// In a process that has not loaded or run anything: tables, threads and the like are made in there.
[[noreturn]] void use_first(int64_t count) {
  ::alarm(60);  // ends what hangs
  Error error = Error::Ok;
  bool failed = false;
  {
    const FailingAllocation failing(count);
    error = load_and_run();
    failed = failing.failed();
  }
  std::vector<std::string> first, second;
  const bool right = (error.ok() || is_for_memory(error)) && load_and_run(&first).ok() &&
                     load_and_run(&second).ok() && first == second && first.size() == 6;
  if (!right) std::fprintf(stderr, "found %s\n", error.message().c_str());
  ::_exit(!right ? kWrong : failed ? kRight : kDidNotFail);
}

// First, since a child's state is this process's.
TEST_F(FailingAllocations, OfTheFirstUse) {
  constexpr int64_t kAtOnce = 4;
  int64_t count = 0;
  for (bool done = false; !done && count < kTooMany && !HasFailure(); count += kAtOnce) {
    std::map<pid_t, int64_t> children;
    for (int64_t i = 0; i < kAtOnce; ++i) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) use_first(count + i);
      children[child] = count + i;
    }
    for (const auto& [child, failing] : children) {
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status)) << "allocation " << failing << ": signal " << WTERMSIG(status);
      EXPECT_NE(WEXITSTATUS(status), kWrong) << "allocation " << failing;
      done = done || WEXITSTATUS(status) == kDidNotFail;
    }
  }
  std::printf("the first use: %lld allocations\n", static_cast<long long>(count));
  EXPECT_GT(count, 500);
  EXPECT_LT(count, kTooMany);
}

TEST_F(FailingAllocations, OfLoadingAndRunning) {
  std::vector<std::string> outputs;
  ASSERT_TRUE(load_and_run(&outputs).ok());
  expected = outputs;
  const auto load_program = []() -> Error {
    PTERON_ASSIGN_OR_RETURN(const auto loaded, load());
    return Error::Ok;
  };
  EXPECT_GT(fail_each("load_program", load_program), 20);
  const auto program = value_of(load());
  const auto load_method = [&]() -> Error {
    PTERON_ASSIGN_OR_RETURN(const auto loaded, program->load_method("forward"));
    return Error::Ok;
  };
  EXPECT_GT(fail_each("load_method", load_method), 200);
  const auto method = value_of(program->load_method("forward"));
  EXPECT_GT(fail_each("execute", [&] { return run(*method); }, 16384), 10);
  EXPECT_GT(fail_each("load and execute", [] { return load_and_run(); }, 16384), 300);
}

}  // namespace
}  // namespace pteron
