// GEMV: which problems are supported, and results against float64.
#include <gtest/gtest.h>

#include <vector>

#include "pteron/backends/cuda/runtime/kernels/gemv.h"
#include "pteron/backends/cuda/runtime/kernels/tests/gemm_problem.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda {
namespace {

using slim::DType;
using testing::close_to;
using testing::contiguous;
using testing::gemm_tolerance;
using testing::HostTensor;
using testing::matmul;
using testing::poisoned;
using testing::round_to;
using testing::TensorPtr;
using testing::to_device;
using testing::to_host;

void* at(uintptr_t address) { return reinterpret_cast<void*>(address); }

GemmProblem step_of_a_decoder() {
  GemmProblem p;
  p.dtype = ScalarType::BFloat16;
  p.m = 1;
  p.k = 2048;
  p.n = 8192;
  p.a = {at(0x1000), {2048, false}};
  p.b = {at(0x2000), {2048, true}};
  p.out = {at(0x3000), {8192, false}};
  return p;
}

TEST(Gemv, TakesOneRowAndATransposedWeight) {
  EXPECT_TRUE(is_gemv(step_of_a_decoder()));
  GemmProblem p = step_of_a_decoder();
  p.m = 2;
  EXPECT_FALSE(is_gemv(p));
  p = step_of_a_decoder();
  p.b.layout.transposed = false;
  EXPECT_FALSE(is_gemv(p));
  p = step_of_a_decoder();
  p.a.layout = {2, true};  // elements two apart
  EXPECT_FALSE(is_gemv(p));
}

TEST(Gemv, TakesOnlyWhatIsReadSixteenBytesAtATime) {
  GemmProblem p = step_of_a_decoder();
  p.a.data = at(0x1002);
  EXPECT_FALSE(is_gemv(p));
  p = step_of_a_decoder();
  p.b.data = at(0x2008);
  EXPECT_FALSE(is_gemv(p));
  p = step_of_a_decoder();
  p.k = 2044;
  EXPECT_FALSE(is_gemv(p));
  p.dtype = ScalarType::Float;  // 4 numbers are 16 bytes
  EXPECT_TRUE(is_gemv(p));
  p = step_of_a_decoder();
  p.b.layout.leading_dimension = 2050;
  EXPECT_FALSE(is_gemv(p));
  p = step_of_a_decoder();
  p.batch = 3;
  p.a.batch_stride = 2048;
  p.b.batch_stride = 2048 * 8192 + 4;
  EXPECT_FALSE(is_gemv(p));
}

class GemvNumeric : public ::testing::TestWithParam<DType> {};

TEST_P(GemvNumeric, MatchesFloat64) {
  PTERON_REQUIRE_CUDA();
  const DType dtype = GetParam();
  for (const int64_t k : {64, 72, 1000, 2048, 4104}) {
    for (const int64_t n : {2, 7, 64, 1001}) {
      for (const int64_t padding : {0, 16}) {
        const HostTensor x = round_to(HostTensor::random({1, k}, 1), dtype);
        const HostTensor w = round_to(HostTensor::random({k, n}, 2), dtype);
        const TensorPtr a = to_device(x, dtype), b = to_device(w, dtype, {1, k + padding}),
                        out = poisoned({1, n}, dtype);
        const GemmProblem p = testing::problem_of(*a, *b, *out);
        ASSERT_TRUE(is_gemv(p));
        const Error error = gemv(p, nullptr);
        ASSERT_TRUE(error.ok()) << error.message();
        EXPECT_TRUE(close_to(to_host(*out), matmul(x, w), gemm_tolerance(dtype, k)));
      }
    }
  }
}

TEST_P(GemvNumeric, ScalesAddsAndTakesBatches) {
  PTERON_REQUIRE_CUDA();
  const DType dtype = GetParam();
  const int64_t batch = 3, k = 128, n = 33;
  const HostTensor x = round_to(HostTensor::random({batch, 1, k}, 3), dtype),
                   w = round_to(HostTensor::random({batch, k, n}, 4), dtype),
                   added = round_to(HostTensor::random({batch, 1, n}, 5), dtype);
  // Every second element of out is written.
  const TensorPtr a = to_device(x, dtype), b = to_device(w, dtype, {k * n, 1, k}),
                  c = to_device(added, dtype), out = poisoned({batch, 1, n}, dtype, {2 * n, 2, 2}),
                  untouched = poisoned({batch, 1, n}, dtype, {2 * n, 2, 2});
  GemmProblem p;
  p.dtype = static_cast<ScalarType>(dtype);
  p.batch = batch;
  p.m = 1;
  p.k = k;
  p.n = n;
  p.a = {a->data(), {k, false}, k};
  p.b = {b->data(), {k, true}, k * n};
  p.c = {c->data(), {n, false}, n};
  p.out = {out->data(), {2, true}, 2 * n};
  p.alpha = 0.5;
  p.beta = -2.0;
  ASSERT_TRUE(is_gemv(p));
  const Error error = gemv(p, nullptr);
  ASSERT_TRUE(error.ok()) << error.message();
  HostTensor expected = matmul(x, w);
  for (size_t i = 0; i < expected.values.size(); ++i) {
    expected.values[i] = 0.5 * expected.values[i] - 2.0 * added.values[i];
  }
  EXPECT_TRUE(close_to(to_host(*out), expected, 2 * gemm_tolerance(dtype, k)));
  const std::vector<unsigned char> found = testing::storage_bytes(*out),
                                   before = testing::storage_bytes(*untouched);
  const size_t item = slim::element_size(dtype);
  for (size_t i = 0; i < found.size(); ++i) {
    if (i / item % 2 == 1) {
      ASSERT_EQ(found[i], before[i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GemvNumeric,
                         ::testing::Values(DType::Float, DType::Double, DType::Half,
                                           DType::BFloat16));

}  // namespace
}  // namespace pteron::cuda
