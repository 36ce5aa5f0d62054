// searchsorted, histc, bincount, embedding_bag and cdist.
#include <algorithm>

#include "pteron/backends/aoti/ops/distance/distance.h"
#include "pteron/backends/aoti/ops/embedding/embedding.h"
#include "pteron/backends/aoti/ops/histogram/histogram.h"
#include "pteron/backends/aoti/ops/search/search.h"
#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {

Error search(const aoti::SearchCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr sequence, converted(call.sequence, call.compared));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr values, converted(call.values, call.compared));
  TensorPtr order;
  if (call.sorter) {
    PTERON_ASSIGN_OR_RETURN(order, slim::contiguous_tensor(*call.sorter));
  }
  const SearchParams params{call.length(), call.per_row(), call.right, order != nullptr};
  return launch(kSearchSource, {{"T", call.compared}, {"OUT", call.out.dtype()}}, "search_rows",
                {memory(call.out), memory(*sequence), memory(order ? *order : *sequence),
                 memory(*values), bytes(params)},
                {static_cast<uint64_t>(call.out.numel()), 1, 1});
}

Error histogram(const aoti::HistogramCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr in, slim::contiguous_tensor(call.self));
  const HistogramParams params{in->numel(), call.out.numel(), false, static_cast<float>(call.low),
                               static_cast<float>(call.high)};
  return launch(kHistogramSource, {{"T", in->dtype()}, {"OUT", call.out.dtype()}}, "count_by_range",
                {memory(call.out), memory(*in), bytes(params)},
                {static_cast<uint64_t>(params.parts), 1, 1});
}

// Done on the host, which synchronizes.
Error range(const aoti::RangeCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr in, converted(call.self, DType::Long));
  PTERON_RETURN_IF_ERROR(wait_for_device());
  const auto* const data = in->data_as<const int64_t>();
  const auto [low, high] = std::minmax_element(data, data + in->numel());
  call.low = *low;
  call.high = *high;
  return Error::Ok;
}

Error count(const aoti::CountCall& call) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr in, converted(call.self, DType::Long));
  TensorPtr weights;
  if (call.weights) {
    PTERON_ASSIGN_OR_RETURN(weights, converted(*call.weights, call.out.dtype()));
  }
  const HistogramParams params{in->numel(), call.out.numel(), weights != nullptr, 0, 0};
  return launch(
      kHistogramSource, {{"T", in->dtype()}, {"OUT", call.out.dtype()}}, "count_numbers",
      {memory(call.out), memory(*in), memory(weights ? *weights : call.out), bytes(params)},
      {static_cast<uint64_t>(params.parts), 1, 1});
}

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
  return launch(kEmbeddingSource, {{"T", weight->dtype()}, {"N", call.bag_sizes.dtype()}},
                "embedding_bags",
                {memory(call.out), memory(*weight), memory(*indices), memory(*offsets),
                 memory(factors ? *factors : *weight), memory(call.bag_of_index),
                 memory(call.bag_sizes), memory(max_rows), bytes(params)},
                {static_cast<uint64_t>(std::max<int64_t>(params.columns, 1)),
                 static_cast<uint64_t>(call.out.size(0)), 1});
}

Error distance(const aoti::DistanceCall& call) {
  if (call.out.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const TensorPtr x1, slim::contiguous_tensor(call.x1));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr x2, slim::contiguous_tensor(call.x2));
  const size_t rank = x1->dim();
  const DistanceParams params{x1->size(rank - 2), x2->size(rank - 2), x1->size(rank - 1),
                              call.each_once, static_cast<float>(call.p)};
  const int64_t lines = call.each_once ? params.rows : call.out.numel() / params.columns;
  return launch(kDistanceSource, {{"T", call.out.dtype()}}, "distances",
                {memory(call.out), memory(*x1), memory(*x2), bytes(params)},
                {static_cast<uint64_t>(params.columns), static_cast<uint64_t>(lines), 1});
}

}  // namespace pteron::metal
