#include "pteron/backends/aoti/ops/embedding/embedding.h"

#include <algorithm>

#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

#define PTERON_EMBEDDING_PARAMS                       \
  struct BagParams {                                  \
    int64_t rows, columns, indices, offsets, padding; \
    int64_t mode, weighted;                           \
  };
PTERON_EMBEDDING_PARAMS

// embedding_bag: a thread per column and bag. Indices out of range are skipped.
const char kSource[] = PTERON_TEXT(PTERON_EMBEDDING_PARAMS) R"MTL(
kernel void embedding_bags(device T* out, device const T* weight, device const long* indices,
                           device const long* offsets, device const T* factors,
                           device N* bag_of_index, device N* bag_sizes, device N* max_rows,
                           constant BagParams& p, uint2 position [[thread_position_in_grid]]) {
  const long column = position.x, bag = position.y;
  const long next = bag + 1 < p.offsets ? offsets[bag + 1] : p.indices;
  const long begin = offsets[bag] < 0 ? 0 : offsets[bag], end = next < p.indices ? next : p.indices;
  float sum = 0;
  long counted = 0, winner = -1;
  for (long i = begin; i < end; ++i) {
    if (column == 0) bag_of_index[i] = N(bag);
    const long row = indices[i];
    if (row == p.padding || row < 0 || row >= p.rows) continue;
    ++counted;
    if (column >= p.columns) continue;
    const float value = float(weight[row * p.columns + column]);
    if (p.mode != 2) {
      sum += p.weighted ? float(factors[i]) * value : value;
    } else if (counted == 1 || value > sum) {
      sum = value;
      winner = row;
    }
  }
  if (column == 0) bag_sizes[bag] = N(counted);
  if (column >= p.columns) return;
  if (p.mode == 2) max_rows[bag * p.columns + column] = N(winner);
  out[bag * p.columns + column] = T(p.mode == 1 && counted > 0 ? sum / float(counted) : sum);
}
)MTL";

}  // namespace

Error embedding_bag(const aoti::EmbeddingBagCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr weight, slim::contiguous_tensor(call.weight));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr indices, converted(call.indices, DType::Long));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr offsets, converted(call.offsets, DType::Long));
  TensorPtr factors;
  if (call.per_sample_weights) {
    PTERON_ASSIGN_OR_RETURN(factors, slim::contiguous_tensor(*call.per_sample_weights));
  }
  PTERON_RETURN_IF_ERROR(slim::zero_tensor(call.bag_of_index));
  PTERON_RETURN_IF_ERROR(slim::zero_tensor(call.bag_sizes));
  const BagParams params{weight->size(0),   weight->size(1), indices->numel(),
                         offsets->numel(),  call.padding,    static_cast<int64_t>(call.mode),
                         factors != nullptr};
  const SlimTensor& max_rows = call.max_rows ? *call.max_rows : call.bag_sizes;
  return launch(kSource, {{"T", weight->dtype()}, {"N", call.bag_sizes.dtype()}}, "embedding_bags",
                {memory(call.out), memory(*weight), memory(*indices), memory(*offsets),
                 memory(factors ? *factors : *weight), memory(call.bag_of_index),
                 memory(call.bag_sizes), memory(max_rows), bytes(params)},
                {static_cast<uint64_t>(std::max<int64_t>(params.columns, 1)),
                 static_cast<uint64_t>(call.out.size(0)), 1});
}

}  // namespace pteron::metal
