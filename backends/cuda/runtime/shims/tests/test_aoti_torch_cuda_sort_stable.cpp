// sort_stable and topk: values and where they came from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/backends/cuda/runtime/testing/shims_abi.h"

namespace pteron::cuda::testing {
namespace {

using aoti::kAotiFailure;
using aoti::kAotiSuccess;
using aoti::shim_error;

struct Sorted {
  HostTensor values, indices;
};

// By std::stable_sort; NaN above everything.
Sorted reference(const HostTensor& x, size_t dim, bool descending, int64_t k) {
  Sorted result;
  result.values.sizes = x.sizes;
  result.values.sizes[dim] = k;
  result.values.values.resize(static_cast<size_t>(result.values.numel()));
  result.indices = result.values;
  const int64_t n = x.sizes[dim];
  int64_t inner = 1;
  for (size_t i = dim + 1; i < x.sizes.size(); ++i) inner *= x.sizes[i];
  const int64_t outer = x.numel() / (n * inner);
  const auto less = [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    return a < b;
  };
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t j) {
        return x.values[static_cast<size_t>((o * n + j) * inner + i)];
      };
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return descending ? less(at(b), at(a)) : less(at(a), at(b));
      });
      for (int64_t j = 0; j < k; ++j) {
        const auto to = static_cast<size_t>((o * k + j) * inner + i);
        result.values.values[to] = at(order[static_cast<size_t>(j)]);
        result.indices.values[to] = static_cast<double>(order[static_cast<size_t>(j)]);
      }
    }
  }
  return result;
}

HostTensor small_integers(std::vector<int64_t> sizes, uint64_t seed) {
  HostTensor host = HostTensor::random(std::move(sizes), seed);
  for (double& value : host.values) value = std::round(3 * value);  // with many ties
  return host;
}

TEST(SortStableContract, RefusesBadArguments) {
  TensorPtr x = pretend_cuda({4, 5}, DType::Float);
  SlimTensor *values = nullptr, *indices = nullptr;
  EXPECT_EQ(ptrn_torch_cuda_sort_stable(nullptr, nullptr, 0, 0, &values, &indices), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_sort_stable(x.get(), nullptr, 2, 0, &values, &indices), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_sort_stable(x.get(), nullptr, 0, 0, nullptr, &indices), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_topk(x.get(), 6, 1, 1, 1, &values, &indices), kAotiFailure);
  EXPECT_NE(shim_error().find("found k 6, expected 0 to 5"), std::string::npos) << shim_error();
  EXPECT_EQ(ptrn_torch_cuda_topk(x.get(), -1, 1, 1, 1, &values, &indices), kAotiFailure);
  EXPECT_EQ(values, nullptr);
  EXPECT_EQ(indices, nullptr);
}

TEST(SortStable, KeepsTheOrderOfEqualElements) {
  PTERON_REQUIRE_CUDA();
  struct Shape {
    std::vector<int64_t> sizes;
    int64_t dim;
  };
  for (const Shape& shape : {Shape{{1000}, 0}, Shape{{7, 65}, -1}, Shape{{65, 7}, 0},
                             Shape{{3, 50, 4}, 1}, Shape{{2, 3, 2000}, 2}, Shape{{1, 70000}, 1}}) {
    const auto dims = static_cast<int64_t>(shape.sizes.size());
    const auto dim = static_cast<size_t>(shape.dim < 0 ? shape.dim + dims : shape.dim);
    for (DType dtype : {DType::Float, DType::Half, DType::BFloat16, DType::Double, DType::Long,
                        DType::Int, DType::Short, DType::Char}) {
      const HostTensor x = small_integers(shape.sizes, 1);
      for (const bool descending : {false, true}) {
        TensorPtr input = to_device(x, dtype);
        SlimTensor *values = nullptr, *indices = nullptr;
        ASSERT_EQ(ptrn_torch_cuda_sort_stable(input.get(), nullptr, shape.dim, descending, &values,
                                              &indices),
                  kAotiSuccess)
            << shim_error();
        TensorPtr v(values), i(indices);
        const Sorted expected = reference(x, dim, descending, shape.sizes[dim]);
        EXPECT_TRUE(equal_to(to_host(*v), expected.values)) << slim::name_of(dtype);
        EXPECT_TRUE(equal_to(to_host(*i), expected.indices)) << slim::name_of(dtype);
        EXPECT_EQ(i->dtype(), DType::Long);
      }
    }
  }
}

TEST(SortStable, PutsNanLastAndTakesBothZerosAsEqual) {
  PTERON_REQUIRE_CUDA();
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const HostTensor x{{9}, {0.0, nan, -0.0, inf, -inf, -nan, 1.0, -1.0, 0.0}};
  for (DType dtype : {DType::Float, DType::Half, DType::BFloat16, DType::Double}) {
    TensorPtr input = to_device(x, dtype);
    SlimTensor *values = nullptr, *indices = nullptr;
    ASSERT_EQ(ptrn_torch_cuda_sort_stable(input.get(), nullptr, 0, 0, &values, &indices),
              kAotiSuccess);
    TensorPtr v(values), i(indices);
    EXPECT_TRUE(equal_to(to_host(*i), {{9}, {4, 7, 0, 2, 8, 6, 3, 1, 5}})) << slim::name_of(dtype);
  }
}

TEST(SortStable, KeepsTheLayoutOfItsInput) {
  PTERON_REQUIRE_CUDA();
  const HostTensor x = small_integers({6, 8}, 2);
  TensorPtr input = to_device(x, DType::Float, {1, 6});
  SlimTensor *values = nullptr, *indices = nullptr;
  ASSERT_EQ(ptrn_torch_cuda_sort_stable(input.get(), nullptr, 1, 0, &values, &indices),
            kAotiSuccess);
  TensorPtr v(values), i(indices);
  EXPECT_EQ(v->stride(0), 1);
  EXPECT_EQ(v->stride(1), 6);
  EXPECT_TRUE(equal_to(to_host(*v), reference(x, 1, false, 8).values));
}

TEST(Topk, GivesTheFirstOfTheSorted) {
  PTERON_REQUIRE_CUDA();
  for (DType dtype : {DType::Float, DType::BFloat16, DType::Long}) {
    for (const bool largest : {false, true}) {
      for (int64_t k : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{64}}) {
        const HostTensor x = small_integers({3, 64, 5}, 3);
        TensorPtr input = to_device(x, dtype);
        SlimTensor *values = nullptr, *indices = nullptr;
        ASSERT_EQ(ptrn_torch_cuda_topk(input.get(), k, 1, largest, 1, &values, &indices),
                  kAotiSuccess)
            << shim_error();
        TensorPtr v(values), i(indices);
        const Sorted expected = reference(x, 1, largest, k);
        EXPECT_TRUE(equal_to(to_host(*v), expected.values));
        EXPECT_TRUE(equal_to(to_host(*i), expected.indices));
        EXPECT_TRUE(v->is_contiguous());
      }
    }
  }
}

TEST(Topk, TakesATensorWithoutDimensions) {
  PTERON_REQUIRE_CUDA();
  TensorPtr input = to_device({{}, {2.5}}, DType::Float);
  SlimTensor *values = nullptr, *indices = nullptr;
  ASSERT_EQ(ptrn_torch_cuda_topk(input.get(), 1, 0, 1, 1, &values, &indices), kAotiSuccess)
      << shim_error();
  TensorPtr v(values), i(indices);
  EXPECT_TRUE(equal_to(to_host(*v), {{}, {2.5}}));
  EXPECT_TRUE(equal_to(to_host(*i), {{}, {0}}));
}

}  // namespace
}  // namespace pteron::cuda::testing
