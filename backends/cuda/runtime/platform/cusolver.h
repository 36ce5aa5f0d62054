// The functions of cuSOLVER (libcusolver.so.12) for linear algebra.
//
//   PTERON_ASSIGN_OR_RETURN(const Cusolver* solver, Cusolver::get());
//   solver->of(1.0f).getrf(handle, m, n, a, lda, workspace, pivots, info);
//
// Opened at the first call; a machine without cuSOLVER gets NotFound. Thread-safe. Signatures
// follow the manual, with the handle as a pointer and the status as an integer, 0 for success.
#pragma once

#include <cublas_v2.h>

#include "pteron/runtime/core/result.h"

namespace pteron::cuda {

using CusolverHandle = void*;

template <typename T>
struct CusolverFunctions {
  int (*getrf_size)(CusolverHandle, int m, int n, T* a, int lda, int* size);
  int (*getrf)(CusolverHandle, int m, int n, T* a, int lda, T* workspace, int* pivots, int* info);
  int (*getrs)(CusolverHandle, cublasOperation_t, int n, int nrhs, const T* a, int lda,
               const int* pivots, T* b, int ldb, int* info);
  int (*potrf_size)(CusolverHandle, cublasFillMode_t, int n, T* a, int lda, int* size);
  int (*potrf)(CusolverHandle, cublasFillMode_t, int n, T* a, int lda, T* workspace, int size,
               int* info);
  int (*potrs)(CusolverHandle, cublasFillMode_t, int n, int nrhs, const T* a, int lda, T* b,
               int ldb, int* info);
  int (*geqrf_size)(CusolverHandle, int m, int n, T* a, int lda, int* size);
  int (*geqrf)(CusolverHandle, int m, int n, T* a, int lda, T* tau, T* workspace, int size,
               int* info);
  int (*orgqr_size)(CusolverHandle, int m, int n, int k, const T* a, int lda, const T* tau,
                    int* size);
  int (*orgqr)(CusolverHandle, int m, int n, int k, T* a, int lda, const T* tau, T* workspace,
               int size, int* info);
  // job: whether there are vectors.
  int (*syevd_size)(CusolverHandle, int job, cublasFillMode_t, int n, const T* a, int lda,
                    const T* values, int* size);
  int (*syevd)(CusolverHandle, int job, cublasFillMode_t, int n, T* a, int lda, T* values,
               T* workspace, int size, int* info);
  int (*gesvd_size)(CusolverHandle, int m, int n, int* size);
  int (*gesvd)(CusolverHandle, signed char job_u, signed char job_vh, int m, int n, T* a, int lda,
               T* values, T* u, int ldu, T* vh, int ldvh, T* workspace, int size, T* unconverged,
               int* info);
};

struct Cusolver {
  int (*create)(CusolverHandle*) = nullptr;
  int (*set_stream)(CusolverHandle, cudaStream_t) = nullptr;
  CusolverFunctions<float> floats;
  CusolverFunctions<double> doubles;

  const CusolverFunctions<float>& of(float) const { return floats; }
  const CusolverFunctions<double>& of(double) const { return doubles; }

  // The table lives as long as the process.
  static Result<const Cusolver*> get();
};

}  // namespace pteron::cuda
