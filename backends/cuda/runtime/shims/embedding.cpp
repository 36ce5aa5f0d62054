#include "pteron/backends/aoti/ops/embedding/embedding.h"

#include "pteron/backends/cuda/runtime/kernels/embedding_bag.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error embedding_bag(const aoti::EmbeddingBagCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr table, rows_along(call.weight, 1));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr indices, rows_along(call.indices, 0));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr offsets, rows_along(call.offsets, 0));
  TensorPtr factors;
  if (call.per_sample_weights) {
    PTERON_ASSIGN_OR_RETURN(factors, rows_along(*call.per_sample_weights, 0));
  }
  EmbeddingBag bag;
  bag.dtype = type_of(*table);
  bag.mode = static_cast<BagMode>(call.mode);
  bag.rows = table->size(0);
  bag.dim = table->size(1);
  bag.bags = call.out.size(0);
  bag.indices = {indices->data(), indices->dtype() == DType::Long};
  bag.num_indices = indices->size(0);
  bag.offsets = {offsets->data(), offsets->dtype() == DType::Long};
  bag.num_offsets = offsets->size(0);
  bag.padding = call.padding;
  const BagResults results{call.bag_sizes.dtype() == DType::Long, call.bag_of_index.data(),
                           call.bag_sizes.data(), call.max_rows ? call.max_rows->data() : nullptr};
  return embedding_bag(bag, table->data(), factors ? factors->data() : nullptr, call.out.data(),
                       results, scope.stream());
}

}  // namespace pteron::cuda
