// Launches matmuls from C++, for a benchmark that compares them with torch's.
//
//   void* product = mm_make(dtype, m, n, k, a, b, out, /*b_transposed=*/1);
//   int64_t ns = mm_launch(product, stream, 100, kShim);      // host time of 100 launches
//
// Functions return a negative number on failure and print why.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/kernels/blas_context.h"
#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/shims/shims.h"

namespace {

using pteron::Device;
using pteron::DeviceType;
using pteron::Error;
using pteron::Result;
using pteron::aoti::ptrn_torch_cuda_mm_out;
using pteron::cuda::BlasContext;
using pteron::cuda::ExecutionResources;
using pteron::cuda::ExecutionScope;
using pteron::cuda::gemm;
using pteron::cuda::GemmLibrary;
using pteron::cuda::GemmProblem;
using pteron::slim::CudaStreamGuard;
using pteron::slim::DType;
using pteron::slim::make_tensor_from_blob;
using pteron::slim::TensorPtr;

// How a product is launched: by the shim that models call, straight through one of the libraries,
// by nothing but cuBLAS' own function in a loop, or by the shim in a model that was loaded with
// record_products.
enum Path { kShim = 0, kCublas = 1, kCublasLt = 2, kBare = 3, kRecorded = 4 };

struct Product {
  TensorPtr a, b, out;
  GemmProblem problem;
};

int64_t fail(const std::string& message) {
  std::fprintf(stderr, "mm_launcher: %s\n", message.c_str());
  return -1;
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

cublasStatus_t call_bare(const BlasContext& blas, const GemmProblem& p) {
  const bool is_float = p.dtype == pteron::ScalarType::Float;
  const cudaDataType type = is_float ? CUDA_R_32F : CUDA_R_16BF;
  const float one = 1, zero = 0;
  return blas.api().gemm_ex(blas.handle(), p.b.layout.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                            CUBLAS_OP_N, static_cast<int>(p.n), static_cast<int>(p.m),
                            static_cast<int>(p.k), &one, p.b.data, type,
                            static_cast<int>(p.b.layout.leading_dimension), p.a.data, type,
                            static_cast<int>(p.k), &zero, const_cast<void*>(p.out.data), type,
                            static_cast<int>(p.n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

// Each of the products in turn, `count` times.
int64_t launch_bare(Product* const* products, int num_products, cudaStream_t stream, int count) {
  Result<BlasContext*> blas = BlasContext::get(0, stream);
  if (!blas.ok()) return fail(blas.error().message());
  const int64_t start = now();
  for (int i = 0; i < count; ++i) {
    for (int p = 0; p < num_products; ++p) {
      if (call_bare(**blas, products[p]->problem) != CUBLAS_STATUS_SUCCESS) {
        return fail("cublasGemmEx failed");
      }
    }
  }
  return now() - start;
}

int64_t launch(Product& product, cudaStream_t stream, int count, int path) {
  Result<CudaStreamGuard> guard = CudaStreamGuard::make(stream, 0);
  if (!guard.ok()) return fail(guard.error().message());
  if (path == kBare) {
    Product* const products[] = {&product};
    return launch_bare(products, 1, stream, count);
  }
  if (path == kShim || path == kRecorded) {
    ExecutionResources resources;
    resources.record_products = path == kRecorded;
    const ExecutionScope scope(&resources);
    const int64_t start = now();
    for (int i = 0; i < count; ++i) {
      if (ptrn_torch_cuda_mm_out(product.out.get(), product.a.get(), product.b.get()) != 0) {
        return fail(pteron::aoti::shim_error());
      }
    }
    return now() - start;
  }
  product.problem.library = path == kCublas ? GemmLibrary::kCublas : GemmLibrary::kCublasLt;
  const int64_t start = now();
  for (int i = 0; i < count; ++i) {
    if (Error error = gemm(product.problem, 0, stream); !error.ok()) return fail(error.message());
  }
  return now() - start;
}

}  // namespace

extern "C" {

// Row-major a (m, k) and out (m, n); b (k, n), its columns contiguous if `b_transposed`.
void* mm_make(int dtype, int64_t m, int64_t n, int64_t k, void* a, void* b, void* out,
              int b_transposed) {
  auto product = std::make_unique<Product>();
  const Device device{DeviceType::CUDA, 0};
  const auto type = static_cast<DType>(dtype);
  const int64_t a_sizes[] = {m, k}, a_strides[] = {k, 1}, b_sizes[] = {k, n};
  const int64_t b_strides[] = {b_transposed ? 1 : n, b_transposed ? k : 1};
  const int64_t out_sizes[] = {m, n}, out_strides[] = {n, 1};
  auto first = make_tensor_from_blob(a, a_sizes, a_strides, 0, type, device);
  auto second = make_tensor_from_blob(b, b_sizes, b_strides, 0, type, device);
  auto result = make_tensor_from_blob(out, out_sizes, out_strides, 0, type, device);
  if (!first.ok() || !second.ok() || !result.ok()) return nullptr;
  product->a = std::move(*first);
  product->b = std::move(*second);
  product->out = std::move(*result);
  GemmProblem& p = product->problem;
  p.dtype = static_cast<pteron::ScalarType>(dtype);
  p.m = m;
  p.n = n;
  p.k = k;
  p.a = {a, {k, false}, 0};
  p.b = {b, {b_transposed ? k : n, b_transposed != 0}, 0};
  p.out = {out, {n, false}, 0};
  return product.release();
}

// Host nanoseconds of `count` launches.
int64_t mm_launch(void* product, void* stream, int count, int path) {
  return launch(*static_cast<Product*>(product), static_cast<cudaStream_t>(stream), count, path);
}

// Host nanoseconds of `count` rounds of cublasGemmEx, and nothing else, over all products.
int64_t mm_launch_bare(void* const* products, int num_products, void* stream, int count) {
  const auto target = static_cast<cudaStream_t>(stream);
  Result<CudaStreamGuard> guard = CudaStreamGuard::make(target, 0);
  if (!guard.ok()) return fail(guard.error().message());
  return launch_bare(reinterpret_cast<Product* const*>(products), num_products, target, count);
}

}  // extern "C"
