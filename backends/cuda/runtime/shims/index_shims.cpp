// Reading and writing where indices say, and finding what is not zero.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/device_operators.h"
#include "pteron/backends/aoti/slim/core/layout.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cuda/runtime/shims/advanced_index.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"

namespace pteron::cuda {
namespace {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;
using aoti::c_boundary;
using slim::SlimTensor;
using slim::TensorPtr;

// A list as the C ABI passes it: pointers to handles, null where a whole dimension is meant.
Result<std::vector<const SlimTensor*>> read_list(const SlimTensor& self,
                                                 const AtenTensorHandle** indices, int64_t count) {
  PTERON_CHECK_OR_RETURN(count >= 0 && (count == 0 || indices != nullptr), Error::InvalidArgument,
                         "found a list of %lld indices%s", static_cast<long long>(count),
                         indices ? "" : " at a null pointer");
  std::vector<const SlimTensor*> list;
  for (int64_t i = 0; i < count; ++i) {
    const SlimTensor* index = indices[i] ? *indices[i] : nullptr;
    list.push_back(index);
    if (index == nullptr || !index->is_defined()) continue;
    PTERON_RETURN_IF_ERROR(check_tensors({{"self", &self}, {"an index", index}}));
  }
  return list;
}

Result<TensorPtr> make_result(const SlimTensor& self, Span<const int64_t> sizes,
                              const int64_t* self_strides) {
  int64_t strides[slim::kMaxDims];
  slim::ordered_strides(sizes, {self_strides}, strides);
  return slim::make_tensor(sizes, Span<const int64_t>(strides, sizes.size()), self.dtype(),
                           self.device());
}

// Strides with which `values` is read at `sizes`.
Error broadcast_strides(const SlimTensor& values, Span<const int64_t> sizes, int64_t* strides) {
  bool fits = values.dim() <= sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) strides[d] = 0;
  for (size_t d = 0; fits && d < values.dim(); ++d) {
    const size_t at = sizes.size() - values.dim() + d;
    fits = values.size(d) == sizes[at] || values.size(d) == 1;
    if (values.size(d) != 1) strides[at] = values.stride(d);
  }
  if (fits) return Error::Ok;
  std::string wanted;
  for (const int64_t size : sizes) wanted += (wanted.empty() ? "" : ", ") + std::to_string(size);
  return make_error(Error::InvalidArgument,
                    "found values %s, expected some that broadcast to [%s], which the indices name",
                    values.describe().c_str(), wanted.c_str());
}

// What is written where; made, and so checked, before anything is touched.
class Put final {
 public:
  static Result<Put> make(const SlimTensor& self, Span<const SlimTensor* const> indices,
                          const SlimTensor& values) {
    PTERON_CHECK_OR_RETURN(values.dtype() == self.dtype(), Error::InvalidType,
                           "found %s, expected one dtype",
                           describe({{"self", &self}, {"values", &values}}).c_str());
    PTERON_ASSIGN_OR_RETURN(AdvancedIndex advanced, AdvancedIndex::make(self, indices));
    Put put(std::move(advanced));
    PTERON_RETURN_IF_ERROR(broadcast_strides(values, put.index_.sizes(), put.value_strides_));
    return put;
  }

  // Into `target`, of the sizes of the tensor that this was made for.
  Error run(const SlimTensor& target, const SlimTensor& values, bool accumulate,
            cudaStream_t stream) const {
    const Indexing indexing =
        index_.indexing(target, Span<const int64_t>(value_strides_, index_.sizes().size()));
    if (accumulate) {
      return index_add(indexing, static_cast<ScalarType>(target.dtype()), target.data(),
                       values.data(), stream);
    }
    return index_write(indexing, target.item_size(), target.data(), values.data(), stream);
  }

 private:
  explicit Put(AdvancedIndex advanced) : index_(std::move(advanced)) {}

  AdvancedIndex index_;
  int64_t value_strides_[slim::kMaxDims];
};

bool same_strides(const SlimTensor& a, const SlimTensor& b) {
  for (size_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

// aoti_torch_index_put_out on this device.
Error put_out(const SlimTensor& out, const SlimTensor& self, Span<const SlimTensor* const> indices,
              const SlimTensor& values, bool accumulate) {
  PTERON_CHECK_OR_RETURN(
      out.dtype() == self.dtype() && out.dim() == self.dim() &&
          std::equal(out.sizes().begin(), out.sizes().end(), self.sizes().begin()),
      Error::InvalidArgument, "found %s, expected both alike",
      describe({{"out", &out}, {"self", &self}}).c_str());
  PTERON_RETURN_IF_ERROR(check_writable(out, "out"));
  PTERON_ASSIGN_OR_RETURN(const Put put, Put::make(out, indices, values));
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(self));
  if (out.data() != self.data() || !same_strides(out, self)) {
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(out, self, true));
  }
  return put.run(out, values, accumulate, scope.stream());
}

[[maybe_unused]] const bool registered =
    (aoti::register_index_put(DeviceType::CUDA, &put_out), true);

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cuda_index_Tensor)
(AtenTensorHandle self, const AtenTensorHandle** indices, int64_t indices_len_,
 AtenTensorHandle* ret0) {
  return c_boundary("aoti_torch_cuda_index_Tensor", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_tensor(self, "self"));
    PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret0, "ret0"));
    PTERON_ASSIGN_OR_RETURN(const std::vector<const SlimTensor*> list,
                            read_list(*self, indices, indices_len_));
    PTERON_ASSIGN_OR_RETURN(const AdvancedIndex advanced, AdvancedIndex::make(*self, list));
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*self));
    int64_t strides[slim::kMaxDims];
    advanced.strides_of(*self, strides);
    PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_result(*self, advanced.sizes(), strides));
    PTERON_RETURN_IF_ERROR(index_read(advanced.indexing(*self, out->strides()), self->item_size(),
                                      self->data(), out->data(), scope.stream()));
    *ret0 = out.release();
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_index_put)
(AtenTensorHandle self, const AtenTensorHandle** indices, int64_t indices_len_,
 AtenTensorHandle values, int32_t accumulate, AtenTensorHandle* ret0) {
  return c_boundary("aoti_torch_cuda_index_put", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_tensors({{"self", self}, {"values", values}}));
    PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret0, "ret0"));
    PTERON_ASSIGN_OR_RETURN(const std::vector<const SlimTensor*> list,
                            read_list(*self, indices, indices_len_));
    PTERON_ASSIGN_OR_RETURN(const Put put, Put::make(*self, list, *values));
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*self));
    PTERON_ASSIGN_OR_RETURN(TensorPtr out,
                            make_result(*self, self->sizes(), self->strides().data()));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *self, true));
    PTERON_RETURN_IF_ERROR(put.run(*out, *values, accumulate != 0, scope.stream()));
    *ret0 = out.release();
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_nonzero)(AtenTensorHandle self, AtenTensorHandle* ret0) {
  return c_boundary("aoti_torch_cuda_nonzero", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_tensor(self, "self"));
    PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret0, "ret0"));
    PTERON_CHECK_OR_RETURN(!slim::is_complex(self->dtype()), Error::InvalidType,
                           "found self %s, expected real numbers", self->describe().c_str());
    PTERON_ASSIGN_OR_RETURN(TensorPtr out, nonzero_coordinates(*self));
    *ret0 = out.release();
    return Error::Ok;
  });
}

}  // namespace pteron::cuda
