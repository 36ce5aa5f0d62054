// Bags of embeddings.
#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/kernels/embedding_bag.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"
#include "pteron/backends/cuda/runtime/shims/rows.h"

namespace pteron::cuda {
namespace {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;
using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

struct Bags {
  const SlimTensor* weight;
  const SlimTensor* indices;
  const SlimTensor* offsets;
  const SlimTensor* per_sample_weights;  // or null
};

bool is_index(DType dtype) { return dtype == DType::Long || dtype == DType::Int; }

Error check(const Bags& bags, int64_t mode, bool include_last_offset) {
  PTERON_RETURN_IF_ERROR(check_tensors(
      {{"weight", bags.weight}, {"indices", bags.indices}, {"offsets", bags.offsets}}));
  const auto all = [&] {
    return describe(
        {{"weight", bags.weight}, {"indices", bags.indices}, {"offsets", bags.offsets}});
  };
  PTERON_CHECK_OR_RETURN(
      bags.weight->dim() == 2 && bags.indices->dim() == 1 && bags.offsets->dim() == 1,
      Error::InvalidArgument, "found %s, expected 2, 1 and 1 dimensions", all().c_str());
  PTERON_CHECK_OR_RETURN(is_index(bags.indices->dtype()) && is_index(bags.offsets->dtype()),
                         Error::InvalidType, "found %s, expected int32 or int64 numbers",
                         all().c_str());
  const DType dtype = bags.weight->dtype();
  PTERON_CHECK_OR_RETURN(dtype == DType::Half || dtype == DType::BFloat16 ||
                             dtype == DType::Float || dtype == DType::Double,
                         Error::InvalidType,
                         "found %s, expected a weight of float16, bfloat16, float32 or float64",
                         all().c_str());
  PTERON_CHECK_OR_RETURN(mode >= 0 && mode <= 2, Error::InvalidArgument,
                         "found mode %lld, expected 0 (sum), 1 (mean) or 2 (max)",
                         static_cast<long long>(mode));
  PTERON_CHECK_OR_RETURN(!include_last_offset || bags.offsets->size(0) > 0, Error::InvalidArgument,
                         "found %s, expected at least one offset", all().c_str());
  if (bags.per_sample_weights == nullptr) return Error::Ok;
  PTERON_RETURN_IF_ERROR(
      check_tensors({{"weight", bags.weight}, {"per_sample_weights", bags.per_sample_weights}}));
  PTERON_CHECK_OR_RETURN(
      mode == 0 && bags.per_sample_weights->dim() == 1 &&
          bags.per_sample_weights->size(0) == bags.indices->size(0) &&
          bags.per_sample_weights->dtype() == dtype,
      Error::InvalidArgument,
      "found %s, %s and mode %lld, expected a weight for each index, of the table's dtype, and "
      "mode 0 (sum)",
      all().c_str(), describe({{"per_sample_weights", bags.per_sample_weights}}).c_str(),
      static_cast<long long>(mode));
  return Error::Ok;
}

Result<TensorPtr> make(std::initializer_list<int64_t> sizes, DType dtype, Device device) {
  const Span<const int64_t> shape(sizes.begin(), sizes.size());
  int64_t strides[2];
  slim::contiguous_strides(shape, strides);
  return slim::make_tensor(shape, Span<const int64_t>(strides, shape.size()), dtype, device);
}

struct Results {
  AtenTensorHandle *out, *bag_of_index, *bag_sizes, *max_rows;
};

Error run(const Bags& bags, int64_t mode, bool include_last_offset, int64_t padding,
          const Results& results) {
  for (AtenTensorHandle* result :
       {results.out, results.bag_of_index, results.bag_sizes, results.max_rows}) {
    PTERON_RETURN_IF_ERROR(aoti::check_pointer(result, "a result"));
  }
  PTERON_RETURN_IF_ERROR(check(bags, mode, include_last_offset));
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*bags.weight));
  // Row-major copies where they are not.
  PTERON_ASSIGN_OR_RETURN(TensorPtr table, rows_along(*bags.weight, 1));
  PTERON_ASSIGN_OR_RETURN(TensorPtr indices, rows_along(*bags.indices, 0));
  PTERON_ASSIGN_OR_RETURN(TensorPtr offsets, rows_along(*bags.offsets, 0));
  TensorPtr weights;
  if (bags.per_sample_weights) {
    PTERON_ASSIGN_OR_RETURN(weights, rows_along(*bags.per_sample_weights, 0));
  }
  EmbeddingBag bag;
  bag.dtype = static_cast<ScalarType>(table->dtype());
  bag.mode = static_cast<BagMode>(mode);
  bag.rows = table->size(0);
  bag.dim = table->size(1);
  bag.indices = {indices->data(), indices->dtype() == DType::Long};
  bag.num_indices = indices->size(0);
  bag.offsets = {offsets->data(), offsets->dtype() == DType::Long};
  bag.num_offsets = offsets->size(0);
  bag.bags = bag.num_offsets - (include_last_offset ? 1 : 0);
  bag.padding = padding >= 0 ? padding : -1;

  const Device device = table->device();
  const DType index_type = indices->dtype();
  const bool maxima = bag.mode == BagMode::kMax;
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, make({bag.bags, bag.dim}, table->dtype(), device));
  PTERON_ASSIGN_OR_RETURN(TensorPtr owners, make({bag.num_indices}, index_type, device));
  PTERON_ASSIGN_OR_RETURN(TensorPtr sizes, make({bag.num_offsets}, index_type, device));
  PTERON_ASSIGN_OR_RETURN(TensorPtr rows, maxima ? make({bag.bags, bag.dim}, index_type, device)
                                                 : make({0}, index_type, device));
  const BagResults extra{index_type == DType::Long, owners->data(), sizes->data(),
                         maxima ? rows->data() : nullptr};
  PTERON_RETURN_IF_ERROR(embedding_bag(bag, table->data(), weights ? weights->data() : nullptr,
                                       out->data(), extra, scope.stream()));
  *results.out = out.release();
  *results.bag_of_index = owners.release();
  *results.bag_sizes = sizes.release();
  *results.max_rows = rows.release();
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cuda__embedding_bag)
(AtenTensorHandle weight, AtenTensorHandle indices, AtenTensorHandle offsets, int32_t, int64_t mode,
 int32_t, AtenTensorHandle* per_sample_weights, int32_t include_last_offset, int64_t padding_idx,
 AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2, AtenTensorHandle* ret3) {
  return aoti::c_boundary("aoti_torch_cuda__embedding_bag", [&] {
    return run({weight, indices, offsets, per_sample_weights ? *per_sample_weights : nullptr}, mode,
               include_last_offset != 0, padding_idx, {ret0, ret1, ret2, ret3});
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda__embedding_bag_forward_only)
(AtenTensorHandle weight, AtenTensorHandle indices, AtenTensorHandle offsets, int32_t, int64_t mode,
 int32_t, AtenTensorHandle* per_sample_weights, int32_t include_last_offset, int64_t padding_idx,
 AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2, AtenTensorHandle* ret3) {
  return aoti::c_boundary("aoti_torch_cuda__embedding_bag_forward_only", [&] {
    return run({weight, indices, offsets, per_sample_weights ? *per_sample_weights : nullptr}, mode,
               include_last_offset != 0, padding_idx, {ret0, ret1, ret2, ret3});
  });
}

}  // namespace pteron::cuda
