// The rules of cc.bzl put the standard headers before each source, so also before this line:
using Names = std::vector<std::string>;

#include "gtest/gtest.h"

TEST(PrecompiledHeaderTest, IsReadFirst) { EXPECT_EQ(Names(2, "name").back(), "name"); }
