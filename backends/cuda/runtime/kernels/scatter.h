// Scattering with a reduction.
//
//   ScatterReduce scatter;
//   scatter.dtype = ScalarType::Float; scatter.reduction = Reduction::kMax; scatter.dim = 1;
//   scatter.add_dim(index_size, out_stride, index_stride, src_stride); ...
//   PTERON_RETURN_IF_ERROR(scatter_reduce(scatter, out, index, src, counts, stream));
//
// For every element of `index`, out[..., index[i], ...] = reduce(out[...], src[i]) along `dim`.
// Where several elements meet, floating-point sums depend on their order from run to run in the
// last bits. 16-bit floats are reduced one rounded step at a time. Asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

enum class Reduction { kSum, kProd, kMean, kMax, kMin };

struct ScatterReduce {
  ScalarType dtype = ScalarType::Float;  // of out and src
  Reduction reduction = Reduction::kSum;
  bool include_self = true;  // false: what out held does not count where something is scattered to
  int dims = 0;
  int dim = 0;               // the one that the index counts along
  int64_t out_dim_size = 0;  // of out along it
  int64_t sizes[16];         // of index
  int64_t out_strides[16], index_strides[16], src_strides[16];

  void add_dim(int64_t size, int64_t out_stride, int64_t index_stride, int64_t src_stride) {
    sizes[dims] = size;
    out_strides[dims] = out_stride;
    index_strides[dims] = index_stride;
    src_strides[dims] = src_stride;
    ++dims;
  }
};

// `index` is int64 and within 0..out_dim_size - 1; an element outside is skipped. `counts`, for
// kMean alone, are as many zeroed int32 as out has elements from its first to its last. InvalidType
// for dtypes other than float16, bfloat16, float32, float64, int32 and int64.
Error scatter_reduce(const ScatterReduce& scatter, void* out, const int64_t* index, const void* src,
                     int32_t* counts, cudaStream_t stream);

}  // namespace pteron::cuda
