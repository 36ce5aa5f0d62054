#include "pteron/backends/aoti/ops/embedding/embedding.h"

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

using Mode = EmbeddingBagCall::Mode;

namespace {

bool is_index_list(const SlimTensor& tensor) {
  return tensor.dim() == 1 && (tensor.dtype() == DType::Long || tensor.dtype() == DType::Int);
}

}  // namespace

// The outputs after the first are for autograd. Their sizes in torch depend on the device; these
// are the largest.
Error _embedding_bag(const Kernels& kernels, const SlimTensor& weight, const SlimTensor& indices,
                     const SlimTensor& offsets, bool, int64_t mode, bool,
                     const SlimTensor* per_sample_weights, bool include_last_offset,
                     int64_t padding_idx, TensorPtr& out, TensorPtr& bag_of_index,
                     TensorPtr& bag_sizes, TensorPtr& max_rows) {
  PTERON_CHECK_OR_RETURN(
      weight.dim() == 2 && slim::is_floating_point(weight.dtype()) && is_index_list(indices) &&
          is_index_list(offsets),
      Error::InvalidArgument,
      "found weight %s, indices %s, offsets %s, expected floating-point numbers in 2 dimensions, "
      "int32 or int64 in 1 and 1",
      weight.describe().c_str(), indices.describe().c_str(), offsets.describe().c_str());
  PTERON_CHECK_OR_RETURN(mode >= 0 && mode <= 2, Error::InvalidArgument,
                         "found mode %lld, expected 0 (sum), 1 (mean) or 2 (max)",
                         static_cast<long long>(mode));
  PTERON_CHECK_OR_RETURN(!include_last_offset || offsets.size(0) > 0, Error::InvalidArgument,
                         "found offsets %s, expected at least one", offsets.describe().c_str());
  PTERON_CHECK_OR_RETURN(
      !per_sample_weights || (mode == 0 && per_sample_weights->dim() == 1 &&
                              per_sample_weights->size(0) == indices.size(0) &&
                              per_sample_weights->dtype() == weight.dtype()),
      Error::InvalidArgument,
      "found per_sample_weights %s, weight %s and mode %lld, expected a factor for each index, of "
      "the dtype of weight, and mode 0 (sum)",
      per_sample_weights->describe().c_str(), weight.describe().c_str(),
      static_cast<long long>(mode));
  const Device device = weight.device();
  const bool wide = indices.dtype() == DType::Long || offsets.dtype() == DType::Long;
  const DType number = wide ? DType::Long : DType::Int;
  const int64_t sizes[] = {offsets.size(0) - (include_last_offset ? 1 : 0), weight.size(1)};
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(sizes, weight.dtype(), device));
  PTERON_ASSIGN_OR_RETURN(bag_of_index, make_row_major(indices.sizes(), number, device));
  PTERON_ASSIGN_OR_RETURN(bag_sizes, make_row_major(offsets.sizes(), number, device));
  const auto kind = static_cast<Mode>(mode);
  if (kind == Mode::kMax) {
    PTERON_ASSIGN_OR_RETURN(max_rows, make_row_major(sizes, number, device));
  } else {
    max_rows = slim::make_alias(*bag_sizes);
  }
  return kernels.embedding_bag({kind, weight, indices, offsets, per_sample_weights,
                                padding_idx >= 0 ? padding_idx : -1, *out, *bag_of_index,
                                *bag_sizes, kind == Mode::kMax ? max_rows.get() : nullptr});
}

Error _embedding_bag_forward_only(const Kernels& kernels, const SlimTensor& weight,
                                  const SlimTensor& indices, const SlimTensor& offsets,
                                  bool scale_grad_by_freq, int64_t mode, bool sparse,
                                  const SlimTensor* per_sample_weights, bool include_last_offset,
                                  int64_t padding_idx, TensorPtr& out, TensorPtr& bag_of_index,
                                  TensorPtr& bag_sizes, TensorPtr& max_rows) {
  return _embedding_bag(kernels, weight, indices, offsets, scale_grad_by_freq, mode, sparse,
                        per_sample_weights, include_last_offset, padding_idx, out, bag_of_index,
                        bag_sizes, max_rows);
}

}  // namespace pteron::aoti::ops
