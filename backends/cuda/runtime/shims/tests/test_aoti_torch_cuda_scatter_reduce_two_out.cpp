// scatter_reduce_two_out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
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

HostTensor reference(const HostTensor& self, const HostTensor& index, const HostTensor& src,
                     const std::string& reduce, bool include_self) {
  // Along dimension 1 of 2.
  HostTensor out = self;
  std::vector<int> counts(out.values.size(), 0);
  for (int64_t i = 0; i < index.sizes[0]; ++i) {
    for (int64_t j = 0; j < index.sizes[1]; ++j) {
      const auto column =
          static_cast<int64_t>(index.values[static_cast<size_t>(i * index.sizes[1] + j)]);
      const auto to = static_cast<size_t>(i * self.sizes[1] + column);
      const double value = src.values[static_cast<size_t>(i * src.sizes[1] + j)];
      double& target = out.values[to];
      if (counts[to]++ == 0 && !include_self) {
        target = value;
      } else if (reduce == "prod") {
        target *= value;
      } else if (reduce == "amax") {
        target = std::max(target, value);
      } else if (reduce == "amin") {
        target = std::min(target, value);
      } else {
        target += value;
      }
    }
  }
  if (reduce == "mean") {
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) out.values[i] /= counts[i] + (include_self ? 1 : 0);
    }
  }
  return out;
}

TEST(ScatterReduceContract, RefusesBadArguments) {
  TensorPtr out = pretend_cuda({4, 5}, DType::Float), src = pretend_cuda({4, 5}, DType::Float);
  TensorPtr index = pretend_cuda({4, 5}, DType::Long), ints = pretend_cuda({4, 5}, DType::Int);
  TensorPtr large = pretend_cuda({4, 6}, DType::Long);
  const auto call = [&](SlimTensor* i, int64_t dim, const char* reduce) {
    return ptrn_torch_cuda_scatter_reduce_two_out(out.get(), out.get(), dim, i, src.get(), reduce,
                                                  1);
  };
  EXPECT_EQ(call(nullptr, 0, "sum"), kAotiFailure);
  EXPECT_EQ(call(ints.get(), 0, "sum"), kAotiFailure);
  EXPECT_EQ(call(large.get(), 0, "sum"), kAotiFailure);
  EXPECT_EQ(call(index.get(), 2, "sum"), kAotiFailure);
  EXPECT_EQ(call(index.get(), 0, "median"), kAotiFailure);
  EXPECT_NE(shim_error().find("found reduce median"), std::string::npos) << shim_error();
}

TEST(ScatterReduce, MatchesFloat64) {
  PTERON_REQUIRE_CUDA();
  std::mt19937 engine(5);
  HostTensor index = HostTensor::zeros({6, 40});
  for (double& value : index.values) value = static_cast<double>(engine() % 9);
  for (DType dtype : {DType::Float, DType::Double, DType::Half, DType::BFloat16}) {
    const HostTensor self = round_to(HostTensor::random({6, 12}, 1), dtype);
    const HostTensor src = round_to(HostTensor::random({6, 44}, 2), dtype);
    for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
      for (const bool include_self : {false, true}) {
        TensorPtr out = poisoned({6, 12}, dtype), before = to_device(self, dtype);
        TensorPtr numbers = to_device(index, DType::Long), values = to_device(src, dtype);
        ASSERT_EQ(ptrn_torch_cuda_scatter_reduce_two_out(out.get(), before.get(), 1, numbers.get(),
                                                         values.get(), reduce, include_self),
                  kAotiSuccess)
            << shim_error();
        // 16-bit floats are rounded after each of the up to 12 steps.
        const double tolerance = dtype == DType::BFloat16 ? 2e-2
                                 : dtype == DType::Half   ? 3e-3
                                                          : 1e-5;
        EXPECT_TRUE(
            close_to(to_host(*out), reference(self, index, src, reduce, include_self), tolerance))
            << slim::name_of(dtype) << " " << reduce << (include_self ? " with self" : "");
      }
    }
  }
}

TEST(ScatterReduce, IsExactForIntegersWhateverTheStrides) {
  PTERON_REQUIRE_CUDA();
  std::mt19937 engine(6);
  HostTensor index = HostTensor::zeros({5, 30}), src = index, self = HostTensor::zeros({5, 7});
  for (double& value : index.values) value = static_cast<double>(engine() % 7);
  for (double& value : src.values) value = static_cast<double>(engine() % 100) - 50;
  for (double& value : self.values) value = static_cast<double>(engine() % 100) - 50;
  for (DType dtype : {DType::Int, DType::Long}) {
    for (const char* reduce : {"sum", "amax", "amin"}) {
      TensorPtr out = poisoned({5, 7}, dtype, {1, 5}), before = to_device(self, dtype);
      TensorPtr numbers = to_device(index, DType::Long, {1, 5});
      TensorPtr values = to_device(src, dtype, {64, 2});
      ASSERT_EQ(ptrn_torch_cuda_scatter_reduce_two_out(out.get(), before.get(), 1, numbers.get(),
                                                       values.get(), reduce, 1),
                kAotiSuccess)
          << shim_error();
      EXPECT_TRUE(equal_to(to_host(*out), reference(self, index, src, reduce, true)));
    }
  }
}

}  // namespace
}  // namespace pteron::cuda::testing
