// An index outside of the table is skipped, like the padding. float16 and bfloat16 are summed in
// float32, in the order of the indices.
#include "pteron/backends/aoti/ops/embedding/embedding.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"
#include "pteron/backends/cuda/runtime/shims/numbers.cuh"
#include "pteron/backends/cuda/runtime/shims/wide.cuh"

namespace pteron::cuda {
namespace {

using Mode = aoti::EmbeddingBagCall::Mode;

// Kernel arguments.
struct Bags {
  Mode mode;
  int64_t rows, dim;  // of the table
  int64_t bags;
  Indices indices;
  int64_t num_indices;
  Indices offsets;
  int64_t num_offsets;  // bags, or one more
  int64_t padding;
  Indices bag_of_index, sizes, max_rows;  // results; the last one may have no data
};

__device__ int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

// One thread for each column of each bag.
template <typename T>
__global__ void bag_kernel(__grid_constant__ const Bags b, const T* table, const T* weights,
                           T* out) {
  using W = typename Wide<T>::type;
  for_each_item(b.bags * b.dim, [&](int64_t i) {
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
      if (b.mode == Mode::kMax) {
        if (counted == 0 || value > held) {
          held = value;
          winner = row;
        }
      } else {
        held += weights ? value * static_cast<W>(weights[k]) : value;
      }
      ++counted;
    }
    if (b.mode == Mode::kMean && counted > 0) held /= static_cast<W>(counted);
    out[i] = static_cast<T>(held);
    if (b.max_rows.data) b.max_rows.store(i, winner);
    if (column == 0) b.sizes.store(bag, counted);
  });
}

// The last bag that begins at or before each index.
__global__ void owner_kernel(__grid_constant__ const Bags b) {
  for_each_item(b.num_indices, [&](int64_t i) {
    const int64_t next = first_that(b.bags, [&](int64_t bag) { return b.offsets[bag] > i; });
    b.bag_of_index.store(i, next > 0 ? next - 1 : 0);
  });
}

// For tables without columns, and the entry behind the last bag.
__global__ void zero_sizes_kernel(Indices sizes, int64_t first, int64_t count) {
  for_each_item(count, [&](int64_t i) { sizes.store(first + i, 0); });
}

}  // namespace

Error embedding_bag(const aoti::EmbeddingBagCall& call) {
  constexpr const char* kWhat = "summing bags of embeddings";
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr table, rows_along(call.weight, 1));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr indices, rows_along(call.indices, 0));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr offsets, rows_along(call.offsets, 0));
  TensorPtr factors;
  if (call.per_sample_weights) {
    PTERON_ASSIGN_OR_RETURN(factors, rows_along(*call.per_sample_weights, 0));
  }
  Bags b{};
  b.mode = call.mode;
  b.rows = table->size(0);
  b.dim = table->size(1);
  b.bags = call.out.size(0);
  b.indices = indices_of(*indices);
  b.num_indices = indices->size(0);
  b.offsets = indices_of(*offsets);
  b.num_offsets = offsets->size(0);
  b.padding = call.padding;
  b.bag_of_index = indices_of(call.bag_of_index);
  b.sizes = indices_of(call.bag_sizes);
  if (call.max_rows) b.max_rows = indices_of(*call.max_rows);
  PTERON_RETURN_IF_ERROR(with_floating(type_of(*table), "embedding_bag", [&](auto zero) {
    using T = decltype(zero);
    return launch_items(b.bags * b.dim, scope.stream(), kWhat, bag_kernel<T>, b,
                        table->data_as<const T>(), factors ? factors->data_as<const T>() : nullptr,
                        call.out.data_as<T>());
  }));
  const int64_t written = b.dim > 0 ? b.bags : 0;
  if (written < b.num_offsets) {
    PTERON_RETURN_IF_ERROR(launch_items(b.num_offsets - written, scope.stream(), kWhat,
                                        zero_sizes_kernel, b.sizes, written,
                                        b.num_offsets - written));
  }
  return launch_items(b.num_indices, scope.stream(), kWhat, owner_kernel, b);
}

}  // namespace pteron::cuda
