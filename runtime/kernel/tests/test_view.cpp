#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

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
    for (size_t d = 0; d < view.dim; ++d) data += at[d] * view.strides[d];
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
  const int64_t order[] = {1, 0};
  std::vector<int32_t> transposed(6);
  const int64_t sizes[] = {3, 2};
  const View out = contiguous_view(ScalarType::Int, sizes, transposed.data());
  ASSERT_TRUE(copy_elements(matrix.permuted(order), out).ok());
  EXPECT_EQ(transposed, (std::vector<int32_t>{0, 3, 1, 4, 2, 5}));
}

TEST(View, PartsLookAtTheSameBytes) {
  std::vector<int32_t> memory;
  const View view = counted_view(memory, {3, 4});
  EXPECT_EQ(slow_elements(view.selected(0, 1)), (std::vector<int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(slow_elements(view.sliced(1, 1, 2, 2)), (std::vector<int32_t>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(view.unsqueezed(1).dim, 3u);
  EXPECT_EQ(slow_elements(view.unsqueezed(1)), slow_elements(view));
}

TEST(View, ExpandedRepeatsWithoutACopy) {
  std::vector<int32_t> memory;
  const View row = counted_view(memory, {1, 2});
  const int64_t sizes[] = {2, 3, 2};
  EXPECT_EQ(slow_elements(row.expanded(sizes)),
            (std::vector<int32_t>{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(View, OfATensorInAnotherDimOrder) {
  int32_t memory[6] = {0, 1, 2, 3, 4, 5};
  const int64_t sizes[] = {2, 3};
  const uint8_t order[] = {1, 0};
  Result<Tensor> tensor = Tensor::make(ScalarType::Int, sizes, order, memory);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(slow_elements(view_of(*tensor)), (std::vector<int32_t>{0, 2, 4, 1, 3, 5}));
}

TEST(Runs, ContiguousViewsAreOneRun) {
  std::vector<int32_t> memory;
  const View view = counted_view(memory, {2, 3, 4});
  Runs<2> runs({&view, &view});
  ASSERT_TRUE(runs.next());
  EXPECT_EQ(runs.count(), 24);
  EXPECT_EQ(runs.step(0), 4);
  EXPECT_FALSE(runs.next());
}

TEST(Runs, FollowTheMemoryOfTheFirstView) {
  std::vector<int32_t> memory;
  const int64_t order[] = {2, 0, 1};
  const View view = counted_view(memory, {2, 3, 4}).permuted(order);
  Runs<1> runs({&view});
  ASSERT_TRUE(runs.next());
  EXPECT_EQ(runs.count(), 24);
  EXPECT_FALSE(runs.next());
}

TEST(Runs, NothingForNoElements) {
  const int64_t sizes[] = {3, 0};
  const View view = contiguous_view(ScalarType::Int, sizes, nullptr);
  EXPECT_FALSE(Runs<1>({&view}).next());
}

TEST(Runs, OneElementWithoutDimensions) {
  int32_t value = 7;
  const View view = contiguous_view(ScalarType::Int, Span<const int64_t>(), &value);
  Runs<1> runs({&view});
  ASSERT_TRUE(runs.next());
  EXPECT_EQ(runs.count(), 1);
  EXPECT_FALSE(runs.next());
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
    std::vector<int64_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    from = from.permuted({order.data(), order.size()});
    if (from.dim > 0 && from.sizes[0] > 1) from = from.sliced(0, 1, (from.sizes[0] - 1 + 1) / 2, 2);
    std::vector<int64_t> expanded(from.sizes.begin(), from.sizes.begin() + from.dim);
    expanded.insert(expanded.begin(), 2);
    from = from.expanded({expanded.data(), expanded.size()});

    std::vector<int32_t> same(static_cast<size_t>(from.numel()));
    const View to = contiguous_view(ScalarType::Int, from.shape(), same.data());
    ASSERT_TRUE(copy_elements(from, to).ok());
    ASSERT_EQ(same, slow_elements(from));

    std::vector<double> other(same.size());
    const View converted = contiguous_view(ScalarType::Double, from.shape(), other.data());
    ASSERT_TRUE(copy_elements(from, converted).ok());
    ASSERT_EQ(std::vector<int32_t>(other.begin(), other.end()), same);
  }
}

TEST(CopyElements, OtherSizesAreAnError) {
  std::vector<int32_t> memory;
  const View view = counted_view(memory, {2, 3});
  EXPECT_EQ(copy_elements(view, view.sliced(0, 0, 1)).code(), Error::InvalidArgument);
}

}  // namespace
}  // namespace pteron
