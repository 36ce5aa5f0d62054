#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/embedding_bag.h"
#include "pteron/backends/cuda/runtime/kernels/wide.cuh"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 128;

unsigned blocks(int64_t count) {
  const int64_t needed = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(needed < 65536 ? needed : 65536);
}

__device__ void store_index(void* data, bool wide, int64_t i, int64_t value) {
  if (wide) {
    static_cast<int64_t*>(data)[i] = value;
  } else {
    static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
  }
}

__device__ int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

// One thread for each column of each bag.
template <typename T>
__global__ void bag_kernel(__grid_constant__ const EmbeddingBag b, const T* table, const T* weights,
                           T* out, __grid_constant__ const BagResults results) {
  using W = typename Wide<T>::type;
  const int64_t count = b.bags * b.dim, step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    const int64_t bag = i / b.dim, column = i % b.dim;
    const int64_t begin = clamp(b.offsets[bag], 0, b.num_indices);
    const int64_t end =
        bag + 1 < b.num_offsets ? clamp(b.offsets[bag + 1], begin, b.num_indices) : b.num_indices;
    W held = 0;
    int64_t counted = 0, winner = -1;
    for (int64_t k = begin; k < end; ++k) {
      const int64_t row = b.indices[k];
      if (row == b.padding || row < 0 || row >= b.rows) continue;
      const W value = static_cast<W>(table[row * b.dim + column]);
      if (b.mode == BagMode::kMax) {
        if (counted == 0 || value > held) {
          held = value;
          winner = row;
        }
      } else {
        held += weights ? value * static_cast<W>(weights[k]) : value;
      }
      ++counted;
    }
    if (b.mode == BagMode::kMean && counted > 0) held /= static_cast<W>(counted);
    out[i] = static_cast<T>(held);
    if (results.max_rows) store_index(results.max_rows, results.wide, i, winner);
    if (column == 0) store_index(results.sizes, results.wide, bag, counted);
  }
}

// The last bag that begins at or before each index.
__global__ void owner_kernel(__grid_constant__ const EmbeddingBag b,
                             __grid_constant__ const BagResults results) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < b.num_indices;
       i += step) {
    int64_t low = 0, high = b.bags;  // the first bag that begins behind i
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (b.offsets[middle] <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    store_index(results.bag_of_index, results.wide, i, low > 0 ? low - 1 : 0);
  }
}

// For tables without columns, and the entry behind the last bag.
__global__ void zero_sizes_kernel(__grid_constant__ const BagResults results, int64_t begin,
                                  int64_t end) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = begin + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < end;
       i += step) {
    store_index(results.sizes, results.wide, i, 0);
  }
}

template <typename T>
void launch(const EmbeddingBag& b, const void* table, const void* weights, void* out,
            const BagResults& results, cudaStream_t stream) {
  bag_kernel<T><<<blocks(b.bags * b.dim), kThreads, 0, stream>>>(b, static_cast<const T*>(table),
                                                                 static_cast<const T*>(weights),
                                                                 static_cast<T*>(out), results);
}

}  // namespace

Error embedding_bag(const EmbeddingBag& bag, const void* table, const void* weights, void* out,
                    const BagResults& results, cudaStream_t stream) {
  const bool known = bag.dtype == ScalarType::Half || bag.dtype == ScalarType::BFloat16 ||
                     bag.dtype == ScalarType::Float || bag.dtype == ScalarType::Double;
  PTERON_CHECK_OR_RETURN(known, Error::InvalidType,
                         "embedding_bag: found %s, expected float16, bfloat16, float32 or float64",
                         name_of(bag.dtype));
  if (bag.bags * bag.dim > 0) {
    if (bag.dtype == ScalarType::Half) {
      launch<__half>(bag, table, weights, out, results, stream);
    } else if (bag.dtype == ScalarType::BFloat16) {
      launch<__nv_bfloat16>(bag, table, weights, out, results, stream);
    } else if (bag.dtype == ScalarType::Float) {
      launch<float>(bag, table, weights, out, results, stream);
    } else {
      launch<double>(bag, table, weights, out, results, stream);
    }
  }
  const int64_t written = bag.dim > 0 ? bag.bags : 0;
  if (written < bag.num_offsets) {
    zero_sizes_kernel<<<blocks(bag.num_offsets - written), kThreads, 0, stream>>>(results, written,
                                                                                  bag.num_offsets);
  }
  if (bag.num_indices > 0) {
    owner_kernel<<<blocks(bag.num_indices), kThreads, 0, stream>>>(bag, results);
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "summing bags of embeddings");
  return Error::Ok;
}

}  // namespace pteron::cuda
