#include <gtest/gtest.h>

#include <vector>

#include "pteron/runtime/core/evalue.h"

namespace pteron {
namespace {

TEST(EValueTest, Examples) {
  const EValue number(int64_t{3});
  ASSERT_TRUE(number.is_int());
  EXPECT_EQ(number.to_int(), 3);
  EXPECT_STREQ(number.kind(), "Int");
}

TEST(EValueTest, EveryKindIsItselfAndNoOther) {
  std::vector<EValue*> slots{nullptr};
  const double doubles[] = {1.5};
  const bool bools[] = {true};
  std::vector<EValue> values;
  values.emplace_back();
  values.emplace_back(int64_t{1});
  values.emplace_back(2.5);
  values.emplace_back(true);
  values.emplace_back(*Tensor::make(ScalarType::Float, {}, nullptr));
  values.emplace_back(std::string_view("text"));
  values.emplace_back(IntList{slots});
  values.emplace_back(DoubleList{doubles});
  values.emplace_back(BoolList{bools});
  values.emplace_back(TensorList{slots});
  values.emplace_back(OptionalTensorList{slots});
  const char* const names[] = {"None",
                               "Int",
                               "Double",
                               "Bool",
                               "Tensor",
                               "String",
                               "IntList",
                               "DoubleList",
                               "BoolList",
                               "TensorList",
                               "OptionalTensorList"};
  for (size_t i = 0; i < values.size(); ++i) {
    const EValue& value = values[i];
    EXPECT_EQ(static_cast<size_t>(value.value_kind()), i);
    EXPECT_STREQ(value.kind(), names[i]);
    const bool is[] = {value.is_none(),
                       value.is_int(),
                       value.is_double(),
                       value.is_bool(),
                       value.is_tensor(),
                       value.is_string(),
                       value.is_int_list(),
                       value.is_double_list(),
                       value.is_bool_list(),
                       value.is_tensor_list(),
                       value.is_optional_tensor_list()};
    for (size_t k = 0; k < values.size(); ++k) EXPECT_EQ(is[k], k == i) << names[i] << names[k];
  }
}

TEST(EValueTest, ACopyOfATensorIsAnotherHandle) {
  float data[2] = {1, 2};
  const int64_t sizes[] = {2};
  EValue first(*Tensor::make(ScalarType::Float, sizes, data));
  EValue second = first;
  second.tensor().data_as<float>()[0] = 7;
  EXPECT_EQ(data[0], 7);
  second.tensor().set_data(nullptr, 0);
  EXPECT_EQ(first.tensor().data(), data);
}

}  // namespace
}  // namespace pteron
