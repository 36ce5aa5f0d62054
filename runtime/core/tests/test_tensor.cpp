#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/core/tests/value_of.h"

namespace pteron {
namespace {

using Sizes = std::vector<int64_t>;
using Order = std::vector<uint8_t>;

Sizes to_vector(Span<const int64_t> span) { return {span.begin(), span.end()}; }

TEST(TensorTest, Examples) {
  float data[6];
  const int64_t sizes[] = {2, 3};
  auto tensor = value_of(Tensor::make(ScalarType::Float, sizes, data));
  EXPECT_EQ(tensor.numel(), 6);
  EXPECT_EQ(tensor.nbytes(), 24u);
  EXPECT_EQ(to_vector(tensor.strides()), (Sizes{3, 1}));
  EXPECT_EQ(tensor.data_as<float>(), data);
  EXPECT_EQ(tensor.describe(), "float32[2, 3]");
}

TEST(TensorTest, StridesFollowTheDimOrder) {
  const Sizes sizes{2, 3, 4, 5};
  const Order channels_last{0, 2, 3, 1};
  auto tensor = value_of(Tensor::make(ScalarType::Half, sizes, channels_last, nullptr));
  EXPECT_EQ(to_vector(tensor.strides()), (Sizes{60, 1, 15, 3}));
}

TEST(TensorTest, AnEmptyDimensionKeepsItsNeighboursStride) {
  const Sizes sizes{2, 0, 4};
  auto tensor = value_of(Tensor::make(ScalarType::Float, sizes, nullptr));
  EXPECT_EQ(tensor.numel(), 0);
  EXPECT_EQ(to_vector(tensor.strides()), (Sizes{4, 4, 1}));
}

TEST(TensorTest, ScalarTensorHasOneElement) {
  auto tensor = value_of(Tensor::make(ScalarType::Long, {}, nullptr));
  EXPECT_EQ(tensor.numel(), 1);
  EXPECT_EQ(tensor.nbytes(), 8u);
  EXPECT_EQ(tensor.describe(), "int64[]");
}

TEST(TensorTest, RefusesWhatCannotBe) {
  const Sizes two{2, 2};
  EXPECT_EQ(Tensor::make(static_cast<ScalarType>(8), two, nullptr).error(), Error::InvalidType);
  EXPECT_EQ(Tensor::make(ScalarType::Float, Sizes{2, -1}, nullptr).error(), Error::InvalidArgument);
  EXPECT_EQ(Tensor::make(ScalarType::Float, Sizes(17, 1), nullptr).error(), Error::InvalidArgument);
  EXPECT_TRUE(Tensor::make(ScalarType::Float, Sizes(16, 1), nullptr).ok());
  for (const Order& order : {Order{0}, Order{0, 0}, Order{0, 2}, Order{0, 1, 2}, Order{1, 255}}) {
    EXPECT_EQ(Tensor::make(ScalarType::Float, two, order, nullptr).error(), Error::InvalidArgument);
  }
}

TEST(TensorTest, RefusesByteCountsThatOverflow) {
  const int64_t big = std::numeric_limits<int64_t>::max() / 8;
  EXPECT_TRUE(Tensor::make(ScalarType::Double, Sizes{big}, nullptr).ok());
  EXPECT_EQ(Tensor::make(ScalarType::Double, Sizes{big + 1}, nullptr).error(),
            Error::InvalidArgument);
  // Not even with no element at all: its strides could not be counted.
  EXPECT_EQ(Tensor::make(ScalarType::Double, Sizes{0, big, 16}, nullptr).error(),
            Error::InvalidArgument);
}

TEST(TensorTest, ResizesWithinItsBound) {
  const Sizes bound{4, 8};
  float data[32];
  auto tensor = value_of(
      Tensor::make(ScalarType::Float, bound, Order{0, 1}, data, {}, ShapeDynamism::DynamicBound));
  ASSERT_TRUE(tensor.resize(Sizes{3, 5}).ok());
  EXPECT_EQ(tensor.numel(), 15);
  EXPECT_EQ(to_vector(tensor.strides()), (Sizes{5, 1}));
  EXPECT_EQ(tensor.max_nbytes(), 128u);
  EXPECT_EQ(to_vector(tensor.max_sizes()), bound);

  const Error error = tensor.resize(Sizes{3, 9});
  EXPECT_EQ(error, Error::InvalidArgument);
  EXPECT_EQ(error.message(), "size 9 of dimension 1 is not within 0..8");
  EXPECT_EQ(to_vector(tensor.sizes()), (Sizes{3, 5})) << "a failed resize changes nothing";
  EXPECT_EQ(tensor.resize(Sizes{3}), Error::InvalidArgument);
  EXPECT_EQ(tensor.resize(Sizes{3, -1}), Error::InvalidArgument);
}

TEST(TensorTest, ResizesWithinItsMemory) {
  float data[6];
  auto bounded = value_of(Tensor::make(ScalarType::Float, Sizes{4, 8}, Order{0, 1}, nullptr, {},
                                       ShapeDynamism::DynamicBound));
  EXPECT_EQ(bounded.capacity_nbytes(), 0u);
  EXPECT_EQ(bounded.resize(Sizes{1, 2}), Error::InvalidArgument) << "there is no memory at all";
  EXPECT_TRUE(bounded.resize(Sizes{4, 0}).ok());

  const Tensor six = *Tensor::make(ScalarType::Float, Sizes{6}, data);
  ASSERT_TRUE(bounded.share_data(six, Sizes{2, 3}).ok());
  EXPECT_EQ(bounded.data(), data);
  EXPECT_EQ(bounded.capacity_nbytes(), 24u);
  EXPECT_TRUE(bounded.resize(Sizes{1, 5}).ok());
  EXPECT_EQ(bounded.resize(Sizes{1, 7}).message(),
            "float32[1, 5] cannot become [1, 7]: that takes 28 bytes, and its memory has 24");

  const Tensor one = *Tensor::make(ScalarType::Float, Sizes{1}, data + 5);
  EXPECT_EQ(bounded.share_data(one, Sizes{1, 5}), Error::InvalidArgument) << "the same sizes";
  EXPECT_EQ(bounded.data(), data) << "a failure changes nothing";
}

TEST(TensorTest, AStaticTensorKeepsItsSizes) {
  Result<Tensor> tensor = Tensor::make(ScalarType::Float, Sizes{2, 3}, nullptr);
  EXPECT_TRUE(tensor->resize(Sizes{2, 3}).ok());
  const Error error = tensor->resize(Sizes{1, 3});
  EXPECT_EQ(error, Error::InvalidArgument);
  EXPECT_EQ(error.message(), "float32[2, 3] is static and cannot become [1, 3]");
}

}  // namespace
}  // namespace pteron
