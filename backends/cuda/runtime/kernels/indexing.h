// Reading and writing the elements that tensors of indices name, as x[i, :, j] means it.
//
//   Indexing indexing;                       // x[i], x of (50, 8), i of 6 numbers
//   indexing.add_dim(6, 0, 8);               // size, stride in x (0: indexed), in the result
//   indexing.add_dim(8, 1, 1);
//   IndexedDim& rows = indexing.add_index({i, true}, 50, 8);
//   rows.strides[0] = 1;                     // i runs along the result's first dimension
//   PTERON_RETURN_IF_ERROR(index_read(indexing, 4, x, out, stream));
//
// Strides in elements. Negative indices count from the end; one that is still outside reads zero
// and writes nothing. Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "pteron/backends/cuda/runtime/kernels/index_list.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

inline constexpr int kMaxIndexedDims = 16;

// One dimension of x, and the numbers that pick from it.
struct IndexedDim {
  IndexList numbers;
  int64_t size = 0;                       // of x in this dimension
  int64_t stride = 0;                     // of x in this dimension
  int64_t strides[kMaxIndexedDims] = {};  // of the numbers, along the result's dimensions
};

struct Indexing {
  int dims = 0;  // of the result
  int64_t sizes[kMaxIndexedDims];
  int64_t x_strides[kMaxIndexedDims];
  int64_t other_strides[kMaxIndexedDims];  // of the result, or of what is written
  int num_indices = 0;
  IndexedDim indices[kMaxIndexedDims];

  void add_dim(int64_t size, int64_t x_stride, int64_t other_stride) {
    sizes[dims] = size;
    x_strides[dims] = x_stride;
    other_strides[dims] = other_stride;
    ++dims;
  }
  IndexedDim& add_index(IndexList numbers, int64_t size, int64_t stride) {
    IndexedDim& index = indices[num_indices++];
    index.numbers = numbers;
    index.size = size;
    index.stride = stride;
    return index;
  }
};

// out[...] = x[...]. InvalidArgument for items of other than 1, 2, 4, 8 or 16 bytes.
Error index_read(const Indexing& indexing, size_t item_nbytes, const void* x, void* out,
                 cudaStream_t stream);

// x[...] = values[...]. Where indices repeat, any of the values stays.
Error index_write(const Indexing& indexing, size_t item_nbytes, void* x, const void* values,
                  cudaStream_t stream);

enum class Reduction { kSum, kProduct, kMean, kMaximum, kMinimum };

// x[...] takes in values[...], all of them where indices repeat, one rounded step at a time: sums
// and products of floating-point numbers differ from run to run in the last bits. Without
// `include_self` what x held before counts only where nothing is taken in. `counts`, for kMean
// alone, are as many zeroed int32 as x has elements from its first to its last. InvalidType for
// dtypes other than bool, integers with a sign, uint8, and floating-point numbers of 16 bits or more.
Error index_reduce(const Indexing& indexing, Reduction reduction, bool include_self,
                   ScalarType dtype, void* x, const void* values, int32_t* counts,
                   cudaStream_t stream);

// Sets one item, to `value` of as many bytes on the host, which are read before this returns.
Error set_item(size_t item_nbytes, void* x, const void* value, cudaStream_t stream);

}  // namespace pteron::cuda
