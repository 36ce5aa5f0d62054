#include <gtest/gtest.h>

#include <vector>

#include "pteron/backends/cuda/runtime/strided_copy.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/runtime/core/device_allocator.h"

namespace pteron::cuda {
namespace {

using slim::DType;
using slim::TensorPtr;
using testing::HostTensor;
using testing::poisoned;
using testing::to_device;
using testing::to_host;

StridedCopy make(std::vector<int64_t> sizes, std::vector<int64_t> target,
                 std::vector<int64_t> source, size_t item = 2) {
  StridedCopy copy;
  copy.target = reinterpret_cast<void*>(uintptr_t{0x1000});
  copy.source = reinterpret_cast<void*>(uintptr_t{0x2000});
  copy.item_nbytes = item;
  for (size_t i = 0; i < sizes.size(); ++i) copy.add_dim(sizes[i], target[i], source[i]);
  return copy;
}

TEST(Simplify, JoinsNeighboursAndWidensItems) {
  const StridedCopy simple = simplify(make({4, 8, 16}, {128, 16, 1}, {128, 16, 1}));
  EXPECT_EQ(simple.dims, 1);
  EXPECT_EQ(simple.item_nbytes, 16u);
  EXPECT_EQ(simple.sizes[0], 4 * 8 * 16 / 8);
}

TEST(Simplify, KeepsWhatDoesNotJoin) {
  const StridedCopy simple = simplify(make({4, 16}, {16, 1}, {24, 1}));
  EXPECT_EQ(simple.dims, 2);
  EXPECT_EQ(simple.item_nbytes, 16u);
  EXPECT_EQ(simple.sizes[1], 2);
  EXPECT_EQ(simple.source_strides[0], 3);
}

TEST(Simplify, PutsTheTargetsInnermostDimensionLast) {
  const StridedCopy simple = simplify(make({4, 8}, {1, 4}, {8, 1}));
  EXPECT_EQ(simple.dims, 2);
  EXPECT_EQ(simple.item_nbytes, 2u);
  EXPECT_EQ(simple.target_strides[1], 1);
  EXPECT_EQ(simple.source_strides[1], 8);
}

TEST(Simplify, DropsDimensionsOfOne) {
  const StridedCopy simple = simplify(make({1, 3, 1}, {77, 5, 9}, {1, 2, 3}));
  EXPECT_EQ(simple.dims, 1);
  EXPECT_EQ(simple.sizes[0], 3);
}

TEST(Simplify, WidensNoFurtherThanAlignment) {
  StridedCopy copy = make({16}, {1}, {1});
  copy.source = reinterpret_cast<void*>(uintptr_t{0x2004});
  EXPECT_EQ(simplify(copy).item_nbytes, 4u);
  copy.target = reinterpret_cast<void*>(uintptr_t{0x1002});
  EXPECT_EQ(simplify(copy).item_nbytes, 2u);
}

TEST(StridedCopyContract, RefusesOddItems) {
  EXPECT_EQ(strided_copy(make({2}, {2}, {2}, 3), nullptr), Error::InvalidArgument);
}

TEST(StridedCopyContract, HasNothingToDoForNoElements) {
  EXPECT_TRUE(strided_copy(make({4, 0}, {1, 1}, {1, 1}), nullptr).ok());
}

Error copy_elements(const slim::SlimTensor& target, const slim::SlimTensor* source) {
  return find_device_allocator(DeviceType::CUDA)
      ->copy_strided(target.data(), target.strides().data(), source ? source->data() : nullptr,
                     source ? source->strides().data() : nullptr, target.sizes().data(),
                     target.dim(), target.item_size(), target.device());
}

TEST(StridedCopy, CopiesEveryElement) {
  PTERON_REQUIRE_CUDA();
  struct Shape {
    std::vector<int64_t> sizes, target, source;
  };
  for (const Shape& shape :
       {Shape{{}, {}, {}}, Shape{{7}, {1}, {1}}, Shape{{7}, {3}, {2}},
        Shape{{33, 65}, {65, 1}, {1, 33}}, Shape{{33, 64}, {64, 1}, {72, 1}},
        Shape{{5, 6, 7}, {42, 7, 1}, {1, 5, 30}},
        Shape{{2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}, {1, 2, 6, 24, 120}},
        Shape{{64, 128}, {128, 1}, {0, 1}}, Shape{{300, 400}, {400, 1}, {1, 0}}}) {
    for (DType dtype : {DType::Char, DType::BFloat16, DType::Float, DType::Double}) {
      HostTensor numbers = HostTensor::random(shape.sizes, 1);
      for (double& value : numbers.values) value = static_cast<int>(10 * value);
      TensorPtr source = to_device(numbers, dtype, shape.source);
      TensorPtr target = poisoned(shape.sizes, dtype, shape.target);
      ASSERT_TRUE(copy_elements(*target, source.get()).ok());
      EXPECT_TRUE(testing::equal_to(to_host(*target), to_host(*source)));
    }
  }
}

TEST(StridedCopy, FillsWithZeros) {
  PTERON_REQUIRE_CUDA();
  TensorPtr target = poisoned({5, 9}, DType::Float, {20, 2});
  ASSERT_TRUE(copy_elements(*target, nullptr).ok());
  EXPECT_TRUE(testing::equal_to(to_host(*target), HostTensor::zeros({5, 9})));
}

}  // namespace
}  // namespace pteron::cuda
