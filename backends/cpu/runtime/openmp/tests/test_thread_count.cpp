#include "gtest/gtest.h"
#include "pteron/backends/cpu/runtime/openmp/region.h"
#include "pteron/backends/cpu/runtime/openmp/thread_count.h"

namespace pteron::cpu::openmp {
namespace {

TEST(ThreadCount, NumbersAndLists) {
  EXPECT_EQ(parse_num_threads("4"), 4);
  EXPECT_EQ(parse_num_threads(" 12 "), 12);
  EXPECT_EQ(parse_num_threads("3,2,1"), 3);
  EXPECT_EQ(parse_num_threads("4096"), 4096);
}

TEST(ThreadCount, AnythingElseIsNoNumber) {
  for (const char* text : {"", "0", "-2", "four", "2x", "4097", "99999999999999999999", ","}) {
    EXPECT_EQ(parse_num_threads(text), 0) << text;
  }
}

// The test runs with OMP_NUM_THREADS=3,2.
TEST(ThreadCount, TheEnvironmentSaysTheDefault) {
  EXPECT_EQ(default_threads(), 3);
  EXPECT_EQ(max_threads(), 3);
  int size = 0;
  EXPECT_TRUE(run_region(
                  [](void* data) {
                    if (thread_num() == 0) *static_cast<int*>(data) = num_threads();
                  },
                  &size, 0)
                  .ok());
  EXPECT_EQ(size, 3);
  EXPECT_GE(num_processors(), 1);
}

}  // namespace
}  // namespace pteron::cpu::openmp
