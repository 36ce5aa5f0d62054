// Sums, means or maxima of the rows of a table that each bag names.
//
//   EmbeddingBag bag;
//   bag.dtype = ScalarType::Float; bag.mode = BagMode::kSum;
//   bag.indices = {indices, true}; bag.num_indices = 24;
//   bag.offsets = {offsets, true}; bag.num_offsets = bag.bags = 4;
//   bag.rows = 50; bag.dim = 8;
//   PTERON_RETURN_IF_ERROR(embedding_bag(bag, table, nullptr, out, results, stream));
//
// Bag b holds indices[offsets[b]] to indices[offsets[b + 1] - 1], the last one to the end. An index
// outside of the table is skipped, like `padding`. float16 and bfloat16 are summed in float32, in
// the order of the indices. Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/backends/cuda/runtime/kernels/index_list.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

enum class BagMode { kSum = 0, kMean = 1, kMax = 2 };

struct EmbeddingBag {
  ScalarType dtype = ScalarType::Float;  // of the table, the weights and out
  BagMode mode = BagMode::kSum;
  int64_t rows = 0, dim = 0;  // of the table, row-major
  int64_t bags = 0;
  IndexList indices;
  int64_t num_indices = 0;
  IndexList offsets;
  int64_t num_offsets = 0;  // bags, or one more
  int64_t padding = -1;     // a row that does not count; -1 for none
};

// What gradients would need; in the type of the indices.
struct BagResults {
  bool wide = true;              // int64, else int32
  void* bag_of_index = nullptr;  // num_indices: the bag of each
  void* sizes = nullptr;         // num_offsets: rows that counted in each bag
  void* max_rows = nullptr;  // (bags, dim) for kMax: where the maxima are from, -1 in empty bags
};

// Writes out (bags, dim), row-major. `weights` (num_indices; may be null) scale the rows of sums.
// InvalidType for dtypes other than float16, bfloat16, float32 and float64.
Error embedding_bag(const EmbeddingBag& bag, const void* table, const void* weights, void* out,
                    const BagResults& results, cudaStream_t stream);

}  // namespace pteron::cuda
