#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "pteron/runtime/core/tensor_ptr.h"
#include "pteron/runtime/core/tests/value_of.h"

namespace pteron {
namespace {

TEST(TensorPtrTest, KeepsItsElements) {
  std::vector<float> elements{1, 2, 3, 4, 5, 6};
  const float* const data = elements.data();
  const auto tensor = value_of(make_tensor_ptr({2, 3}, std::move(elements)));
  EXPECT_EQ(tensor->describe(), "float32[2, 3]");
  EXPECT_EQ(tensor->data(), data) << "moved, not copied";
  EXPECT_EQ(tensor->capacity_nbytes(), 24u);
  EXPECT_EQ(*to_vector<float>(*tensor), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(TensorPtrTest, EveryDtypeHasElements) {
  EXPECT_EQ((*make_tensor_ptr(std::vector<int8_t>{1}))->dtype(), ScalarType::Char);
  EXPECT_EQ((*make_tensor_ptr(std::vector<uint8_t>{1}))->dtype(), ScalarType::Byte);
  EXPECT_EQ((*make_tensor_ptr(std::vector<int>{1}))->dtype(), ScalarType::Int);
  EXPECT_EQ((*make_tensor_ptr(std::vector<long>{1}))->dtype(), ScalarType::Long);
  EXPECT_EQ((*make_tensor_ptr(std::vector<long long>{1}))->dtype(), ScalarType::Long);
  EXPECT_EQ((*make_tensor_ptr(std::vector<uint16_t>{1}))->dtype(), ScalarType::UInt16);
  EXPECT_EQ((*make_tensor_ptr(std::vector<double>{1}))->dtype(), ScalarType::Double);
  EXPECT_EQ((*make_tensor_ptr(std::vector<Half>(1)))->dtype(), ScalarType::Half);
  EXPECT_EQ((*make_tensor_ptr(std::vector<BFloat16>(1)))->dtype(), ScalarType::BFloat16);
  EXPECT_EQ((*make_tensor_ptr({2}, std::vector<uint8_t>{0, 1}, ScalarType::Bool))->dtype(),
            ScalarType::Bool);
}

TEST(TensorPtrTest, ScalarsAndNothing) {
  EXPECT_EQ((*make_tensor_ptr({}, std::vector<float>{1}))->describe(), "float32[]");
  const auto nothing = value_of(make_tensor_ptr(std::vector<float>{}));
  EXPECT_TRUE(to_vector<float>(*nothing)->empty());
}

TEST(TensorPtrTest, SaysWhatIsWrong) {
  const auto few = make_tensor_ptr({2, 3}, std::vector<float>{1, 2});
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.error(), Error::InvalidArgument);
  EXPECT_EQ(few.error().message(), "2 elements were given for float32[2, 3], expected 6");
  EXPECT_EQ(make_tensor_ptr({1}, std::vector<int>{1}, ScalarType::Float).ok(), true) << "4 bytes";
  EXPECT_EQ(make_tensor_ptr({1}, std::vector<int>{1}, ScalarType::Bool).error(),
            Error::InvalidType);
  EXPECT_EQ(make_tensor_ptr(std::vector<char16_t*>{nullptr}).error(), Error::InvalidType);

  const auto tensor = make_tensor_ptr(std::vector<float>{1});
  const auto other = to_vector<int64_t>(**tensor);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error(), Error::InvalidType);
  EXPECT_EQ(other.error().message(),
            "the tensor is float32[1], expected a vector of its elements, not of int64");
}

TEST(TensorPtrTest, ToVectorReadsAnyDimOrder) {
  float data[] = {1, 4, 2, 5, 3, 6};
  const int64_t sizes[] = {2, 3};
  const uint8_t columns_first[] = {1, 0};
  const auto tensor = value_of(Tensor::make(ScalarType::Float, sizes, columns_first, data));
  EXPECT_EQ(*to_vector<float>(tensor), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  uint8_t flags[] = {1, 0};
  const int64_t two[] = {2};
  EXPECT_EQ(*to_vector<uint8_t>(*Tensor::make(ScalarType::Bool, two, flags)),
            (std::vector<uint8_t>{1, 0}));
}

}  // namespace
}  // namespace pteron
