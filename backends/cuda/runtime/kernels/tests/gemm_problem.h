// Products of the tensors that tests make.
#pragma once

#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda::testing {

// a (m, k) @ b (k, n) into out (m, n); rows contiguous, or columns of `b`.
inline GemmProblem problem_of(const SlimTensor& a, const SlimTensor& b, const SlimTensor& out) {
  const bool transposed = b.stride(0) == 1 && b.stride(1) != 1;
  GemmProblem p;
  p.dtype = static_cast<ScalarType>(out.dtype());
  p.m = a.size(0);
  p.k = a.size(1);
  p.n = b.size(1);
  p.a = {a.data(), {a.stride(0), false}};
  p.b = {b.data(), {b.stride(transposed ? 1 : 0), transposed}};
  p.out = {out.data(), {out.stride(0), false}};
  return p;
}

}  // namespace pteron::cuda::testing
