#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>

#include "pteron/backends/cpu/runtime/kernels/parallel.h"

namespace pteron::cpu {
namespace {

TEST(ParallelTest, EveryRangeIsRunOnce) {
  const ThreadLimit limit(4);
  std::atomic<int64_t> sum{0};
  parallel_for(1000, 1,
               [&](int64_t begin, int64_t end) { sum += (begin + end - 1) * (end - begin); });
  EXPECT_EQ(sum, 999 * 1000);
}

TEST(ParallelTest, ExceptionsComeBackToTheCaller) {
  for (const int threads : {1, 2, 4}) {
    const ThreadLimit limit(threads);
    for (int i = 0; i < 100; ++i) {
      EXPECT_THROW(parallel_for(4, 1, [](int64_t, int64_t) { throw std::bad_alloc(); }),
                   std::bad_alloc);
      const auto fail_at_the_end = [](int64_t, int64_t end) {
        if (end == 4) throw std::runtime_error("as told");
      };
      EXPECT_THROW(parallel_for(4, 1, fail_at_the_end), std::runtime_error);
      std::atomic<int> calls{0};
      parallel_for(4, 1,
                   [&](int64_t begin, int64_t end) { calls += static_cast<int>(end - begin); });
      EXPECT_EQ(calls, 4);
    }
  }
}

}  // namespace
}  // namespace pteron::cpu
