#include <gtest/gtest.h>

#include <set>
#include <string>

#include "pteron/runtime/core/scalar_type.h"

namespace pteron {
namespace {

TEST(ScalarTypeTest, Examples) {
  EXPECT_EQ(element_size(ScalarType::BFloat16), 2u);
  EXPECT_STREQ(name_of(ScalarType::BFloat16), "bfloat16");
  EXPECT_EQ(static_cast<int>(ScalarType::BFloat16), 15);
}

TEST(ScalarTypeTest, NumbersOutsideTheTableAreInvalid) {
  for (const int number : {-1, 8, 12, 14, 18, 22, 25, 30, 127, -128}) {
    const auto dtype = static_cast<ScalarType>(number);
    EXPECT_FALSE(is_valid(dtype)) << number;
    EXPECT_EQ(element_size(dtype), 0u) << number;
    EXPECT_STREQ(name_of(dtype), "unknown") << number;
  }
}

TEST(ScalarTypeTest, TableIsConsistent) {
  std::set<std::string> names;
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  EXPECT_TRUE(is_valid(ScalarType::name));                                            \
  EXPECT_EQ(element_size(ScalarType::name) * 8, static_cast<size_t>(dlpack_bits));    \
  EXPECT_TRUE(names.insert(name_of(ScalarType::name)).second) << #name;
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
  EXPECT_EQ(names.count("float32"), 1u);
}

}  // namespace
}  // namespace pteron
