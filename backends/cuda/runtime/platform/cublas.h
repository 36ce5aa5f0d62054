// The functions of cuBLAS 13 (libcublas.so.13, libcublasLt.so.13) that the GEMM layer calls.
//
//   PTERON_ASSIGN_OR_RETURN(const Cublas* blas, Cublas::get());
//   blas->gemm_ex(handle, ...);
//
// Opened at the first call; a machine without cuBLAS gets NotFound. Thread-safe.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include "pteron/runtime/core/result.h"

// The header overloads these two in C++, so their types are declared here. Never defined.
cublasStatus_t pteron_gemm_ex_type(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m,
                                   int n, int k, const void* alpha, const void* a, cudaDataType,
                                   int lda, const void* b, cudaDataType, int ldb, const void* beta,
                                   void* c, cudaDataType, int ldc, cublasComputeType_t,
                                   cublasGemmAlgo_t);
cublasStatus_t pteron_gemm_batched_ex_type(cublasHandle_t, cublasOperation_t, cublasOperation_t,
                                           int m, int n, int k, const void* alpha, const void* a,
                                           cudaDataType, int lda, long long stride_a, const void* b,
                                           cudaDataType, int ldb, long long stride_b,
                                           const void* beta, void* c, cudaDataType, int ldc,
                                           long long stride_c, int batch, cublasComputeType_t,
                                           cublasGemmAlgo_t);

// (member, function of that type, exported symbol)
#define PTERON_CUBLAS_FUNCTIONS(FUNCTION)                                              \
  FUNCTION(create, cublasCreate_v2, "cublasCreate_v2")                                 \
  FUNCTION(destroy, cublasDestroy_v2, "cublasDestroy_v2")                              \
  FUNCTION(set_stream, cublasSetStream_v2, "cublasSetStream_v2")                       \
  FUNCTION(set_workspace, cublasSetWorkspace_v2, "cublasSetWorkspace_v2")              \
  FUNCTION(status_string, cublasGetStatusString, "cublasGetStatusString")              \
  FUNCTION(gemm_ex, pteron_gemm_ex_type, "cublasGemmEx")                               \
  FUNCTION(gemm_batched_ex, pteron_gemm_batched_ex_type, "cublasGemmStridedBatchedEx") \
  FUNCTION(strsm, cublasStrsm_v2, "cublasStrsm_v2")                                    \
  FUNCTION(dtrsm, cublasDtrsm_v2, "cublasDtrsm_v2")

#define PTERON_CUBLASLT_FUNCTIONS(FUNCTION)                                                        \
  FUNCTION(lt_matmul, cublasLtMatmul, "cublasLtMatmul")                                            \
  FUNCTION(lt_desc_create, cublasLtMatmulDescCreate, "cublasLtMatmulDescCreate")                   \
  FUNCTION(lt_desc_destroy, cublasLtMatmulDescDestroy, "cublasLtMatmulDescDestroy")                \
  FUNCTION(lt_desc_set, cublasLtMatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute")          \
  FUNCTION(lt_layout_create, cublasLtMatrixLayoutCreate, "cublasLtMatrixLayoutCreate")             \
  FUNCTION(lt_layout_destroy, cublasLtMatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy")          \
  FUNCTION(lt_layout_set, cublasLtMatrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute")    \
  FUNCTION(lt_preference_create, cublasLtMatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate") \
  FUNCTION(lt_preference_destroy, cublasLtMatmulPreferenceDestroy,                                 \
           "cublasLtMatmulPreferenceDestroy")                                                      \
  FUNCTION(lt_preference_set, cublasLtMatmulPreferenceSetAttribute,                                \
           "cublasLtMatmulPreferenceSetAttribute")                                                 \
  FUNCTION(lt_heuristic, cublasLtMatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic")

namespace pteron::cuda {

struct Cublas {
#define PTERON_DECLARE(member, function, symbol) decltype(&::function) member = nullptr;
  PTERON_CUBLAS_FUNCTIONS(PTERON_DECLARE)
  PTERON_CUBLASLT_FUNCTIONS(PTERON_DECLARE)
#undef PTERON_DECLARE

  // The table lives as long as the process.
  static Result<const Cublas*> get();
};

}  // namespace pteron::cuda
