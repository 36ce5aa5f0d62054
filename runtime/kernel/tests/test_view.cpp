#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <vector>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/kernel/view.h"

namespace pteron {
namespace {

std::vector<int32_t> counted(int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

// All elements in the order of the dimensions, by coordinates.
std::vector<int32_t> slow_elements(const View& view) {
  std::vector<int32_t> elements;
  std::array<int64_t, kMaxTensorDims> at{};
  for (int64_t i = 0; i < view.numel(); ++i) {
    const std::byte* data = view.data;
    for (size_t d = 0; d < view.dim; ++d) data += at[d] * view.strides[d] * 4;
    elements.push_back(*reinterpret_cast<const int32_t*>(data));
    for (size_t d = view.dim; d-- > 0 && ++at[d] == view.sizes[d];) at[d] = 0;
  }
  return elements;
}

View counted_view(std::vector<int32_t>& memory, std::vector<int64_t> sizes) {
  memory = counted(std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()));
  return contiguous_view(ScalarType::Int, sizes, memory.data());
}

TEST(View, Example) {
  std::vector<int32_t> memory;
  const View matrix = counted_view(memory, {2, 3});
  std::vector<int32_t> row(3);
  const int64_t sizes[] = {3};
  const View out = contiguous_view(ScalarType::Int, sizes, row.data());
  ASSERT_TRUE(copy_elements(matrix.selected(0, 1), out).ok());
  EXPECT_EQ(row, (std::vector<int32_t>{3, 4, 5}));
}

TEST(View, PartsLookAtTheSameBytes) {
  std::vector<int32_t> memory;
  const View view = counted_view(memory, {3, 4});
  EXPECT_EQ(slow_elements(view.selected(0, 1)), (std::vector<int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(slow_elements(view.selected(1, 2)), (std::vector<int32_t>{2, 6, 10}));
}

TEST(View, OfATensorInAnotherDimOrder) {
  int32_t memory[6] = {0, 1, 2, 3, 4, 5};
  const int64_t sizes[] = {2, 3};
  const uint8_t order[] = {1, 0};
  auto tensor = value_of(Tensor::make(ScalarType::Int, sizes, order, memory));
  EXPECT_EQ(slow_elements(view_of(tensor)), (std::vector<int32_t>{0, 2, 4, 1, 3, 5}));
}

TEST(CopyElements, NothingForNoElements) {
  const int64_t sizes[] = {3, 0};
  const View view = contiguous_view(ScalarType::Int, sizes, nullptr);
  EXPECT_TRUE(copy_elements(view, view).ok());
}

TEST(CopyElements, OneElementWithoutDimensions) {
  int32_t value = 7, copy = 0;
  const View from = contiguous_view(ScalarType::Int, Span<const int64_t>(), &value);
  ASSERT_TRUE(copy_elements(from, contiguous_view(ScalarType::Int, {}, &copy)).ok());
  EXPECT_EQ(copy, 7);
}

// Random views of random shapes: a copy holds the same elements in the same order.
TEST(CopyElements, LikeTheSlowWay) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> sizes(static_cast<size_t>(below(5)));
    for (int64_t& size : sizes) size = below(5);
    std::vector<int32_t> memory;
    View from = counted_view(memory, sizes);
    for (size_t d = 0; d < from.dim; ++d) {
      const auto other = static_cast<size_t>(below(static_cast<int64_t>(d) + 1));
      std::swap(from.sizes[d], from.sizes[other]);
      std::swap(from.strides[d], from.strides[other]);
    }
    if (from.dim > 0 && from.sizes[0] > 1) {  // every second, from the end
      from.data += (from.sizes[0] - 1) * from.strides[0] * 4;
      from.sizes[0] = (from.sizes[0] + 1) / 2;
      from.strides[0] *= -2;
    }
    if (from.dim > 1 && below(3) == 0) from.strides[1] = 0;  // one element for all
    std::vector<int32_t> same(static_cast<size_t>(from.numel()));
    const View to = contiguous_view(ScalarType::Int, from.shape(), same.data());
    ASSERT_TRUE(copy_elements(from, to).ok());
    ASSERT_EQ(same, slow_elements(from));

    // And back to where they came from, from elsewhere.
    std::vector<int32_t> back(memory.size(), -1);
    View target = from;
    target.data = reinterpret_cast<std::byte*>(back.data()) +
                  (from.data - reinterpret_cast<std::byte*>(memory.data()));
    ASSERT_TRUE(copy_elements(to, target).ok());
    ASSERT_EQ(slow_elements(target), same);
  }
}

TEST(CopyElements, OtherDtypesAreAnError) {
  std::vector<int32_t> memory;
  const View view = counted_view(memory, {2, 3});
  View other = view;
  other.dtype = ScalarType::Float;
  const Error error = copy_elements(view, other);
  EXPECT_EQ(error.message(), "cannot copy int32 to float32: the dtypes differ");
}

TEST(CopyElements, OtherSizesAreAnError) {
  std::vector<int32_t> memory;
  const View view = counted_view(memory, {2, 3});
  EXPECT_EQ(copy_elements(view, view.selected(0, 0)).code(), Error::InvalidArgument);
}

View view_at(std::vector<int32_t>& memory, size_t first, std::vector<int64_t> sizes,
             std::vector<int64_t> strides) {
  View view = contiguous_view(ScalarType::Int, sizes, memory.data() + first);
  std::copy(strides.begin(), strides.end(), view.strides.begin());
  return view;
}

// By comparing every byte of every element with every other one.
std::vector<uintptr_t> addresses(const View& view) {
  std::vector<uintptr_t> found{reinterpret_cast<uintptr_t>(view.data)};
  for (size_t d = 0; d < view.dim; ++d) {
    std::vector<uintptr_t> more;
    for (const uintptr_t address : found) {
      for (int64_t i = 0; i < view.sizes[d]; ++i) {
        more.push_back(address + static_cast<uintptr_t>(i * view.strides[d]) * 4);
      }
    }
    found = std::move(more);
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(Overlap, Examples) {
  std::vector<int32_t> memory(64);
  EXPECT_FALSE(overlaps_itself(view_at(memory, 0, {}, {})));
  EXPECT_FALSE(overlaps_itself(view_at(memory, 0, {1, 1}, {0, 0})));
  EXPECT_FALSE(overlaps_itself(view_at(memory, 0, {0, 4}, {0, 0})));
  EXPECT_FALSE(overlaps_itself(view_at(memory, 20, {3, 2}, {-4, 3})));
  EXPECT_FALSE(overlaps_itself(view_at(memory, 0, {2, 4}, {3, 2})));  // 0 2 4 6 and 3 5 7 9
  EXPECT_TRUE(overlaps_itself(view_at(memory, 0, {2, 3}, {0, 1})));
  EXPECT_TRUE(overlaps_itself(view_at(memory, 0, {2, 3}, {2, 1})));
  const View even = view_at(memory, 0, {8}, {2}), odd = view_at(memory, 1, {8}, {2});
  EXPECT_FALSE(share_elements(even, odd));
  EXPECT_TRUE(share_elements(even, view_at(memory, 15, {8}, {-1})));
  View bytes = odd;  // the last byte of an element counts, too
  bytes.dtype = ScalarType::Byte;
  bytes.sizes[0] = 1;
  bytes.data = even.data + 3;
  EXPECT_TRUE(share_elements(even, bytes));
  bytes.data = even.data + 4;
  EXPECT_FALSE(share_elements(even, bytes));
}

TEST(Overlap, LikeTheSlowWay) {
  std::mt19937 random(5);
  std::vector<int32_t> memory(512);
  const auto random_view = [&] {
    std::vector<int64_t> sizes(random() % 4), strides(sizes.size());
    for (int64_t& size : sizes) size = random() % 4;
    for (int64_t& stride : strides) stride = static_cast<int64_t>(random() % 21) - 8;
    return view_at(memory, 200 + random() % 24, sizes, strides);
  };
  int overlapping = 0, sharing = 0;
  for (int round = 0; round < 2000; ++round) {
    const View a = random_view(), b = random_view();
    const std::vector<uintptr_t> of_a = addresses(a), of_b = addresses(b);
    const bool twice = std::adjacent_find(of_a.begin(), of_a.end()) != of_a.end();
    ASSERT_EQ(overlaps_itself(a), twice);
    std::vector<uintptr_t> both;
    std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                          std::back_inserter(both));
    ASSERT_EQ(share_elements(a, b), !both.empty());
    overlapping += twice;
    sharing += !both.empty();
  }
  EXPECT_GT(overlapping, 100);
  EXPECT_GT(sharing, 100);
}

}  // namespace
}  // namespace pteron
