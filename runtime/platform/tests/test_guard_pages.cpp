#include <cstdlib>

#include "gtest/gtest.h"
#include "pteron/runtime/platform/guard_pages.h"

namespace pteron {
namespace {

// The environment is read once a process: each end in a process of its own.
void touch(const char* edge, size_t nbytes, int64_t offset) {
  ::setenv("PTERON_GUARD_PAGES", edge, 1);
  auto* const data = static_cast<volatile char*>(guarded_allocate(nbytes));
  for (size_t i = 0; i < nbytes; ++i) data[i] = 1;
  data[offset] = 1;
  guarded_free(const_cast<char*>(data));
  std::exit(0);
}

class GuardPages : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(GuardPages, EndTheProcessThatLeavesABlock) {
  for (const size_t nbytes : {16, 4096, 5008}) {
    const auto end = static_cast<int64_t>(nbytes);
    EXPECT_DEATH(touch("end", nbytes, end), "");
    EXPECT_DEATH(touch("begin", nbytes, -1), "");
    EXPECT_EXIT(touch("end", nbytes, end - 1), testing::ExitedWithCode(0), "");
    EXPECT_EXIT(touch("begin", nbytes, 0), testing::ExitedWithCode(0), "");
  }
}

TEST_F(GuardPages, ABlockOfNoneHasAnAddress) {
  void* const data = guarded_allocate(0);
  EXPECT_NE(data, nullptr);
  guarded_free(data);
}

TEST_F(GuardPages, AreNotThereUnlessAskedFor) {
  EXPECT_EQ(guard_pages(), pteron::GuardPages::kNone);
}

}  // namespace
}  // namespace pteron
