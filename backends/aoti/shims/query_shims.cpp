// What a tensor is. Pointers to sizes and strides are borrowed and live as long as the handle.
#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/failed_check.h"
#include "pteron/backends/aoti/shims/shims.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {
namespace {

// Writes `value(*tensor)` to `ret`.
template <typename T, typename Value>
AOTITorchError query(const char* shim, AtenTensorHandle tensor, T* ret, Value&& value) {
  return c_boundary(shim, [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_handle(tensor, "the tensor"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    *ret = value(*tensor);
    return Error::Ok;
  });
}

}  // namespace

using slim::SlimTensor;

// Of the first element, with the storage offset; null for an undefined tensor. A failed run gets no
// data.
PTERON_AOTI_SHIM(AOTITorchError, get_data_ptr)(AtenTensorHandle tensor, void** ret) {
  if (__builtin_expect(run_has_failed(), 0)) return kAotiFailure;
  return query("aoti_torch_get_data_ptr", tensor, ret, [](SlimTensor& t) { return t.data(); });
}

// In bytes.
PTERON_AOTI_SHIM(AOTITorchError, get_storage_size)(AtenTensorHandle tensor, int64_t* ret) {
  return query("aoti_torch_get_storage_size", tensor, ret, [](SlimTensor& t) {
    return t.is_defined() ? static_cast<int64_t>(t.storage()->nbytes) : 0;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, get_storage_numel)(AtenTensorHandle tensor, int64_t* ret) {
  return query("aoti_torch_get_storage_numel", tensor, ret, [](SlimTensor& t) {
    return t.is_defined() ? static_cast<int64_t>(t.storage()->nbytes / t.item_size()) : 0;
  });
}

// In elements.
PTERON_AOTI_SHIM(AOTITorchError, get_storage_offset)(AtenTensorHandle tensor, int64_t* ret) {
  return query("aoti_torch_get_storage_offset", tensor, ret,
               [](SlimTensor& t) { return t.storage_offset(); });
}

PTERON_AOTI_SHIM(AOTITorchError, get_dim)(AtenTensorHandle tensor, int64_t* ret) {
  return query("aoti_torch_get_dim", tensor, ret,
               [](SlimTensor& t) { return static_cast<int64_t>(t.dim()); });
}

PTERON_AOTI_SHIM(AOTITorchError, get_numel)(AtenTensorHandle tensor, int64_t* ret) {
  return query("aoti_torch_get_numel", tensor, ret, [](SlimTensor& t) { return t.numel(); });
}

PTERON_AOTI_SHIM(AOTITorchError, get_sizes)(AtenTensorHandle tensor, int64_t** ret) {
  return query("aoti_torch_get_sizes", tensor, ret,
               [](SlimTensor& t) { return t.mutable_sizes(); });
}

PTERON_AOTI_SHIM(AOTITorchError, get_strides)(AtenTensorHandle tensor, int64_t** ret) {
  return query("aoti_torch_get_strides", tensor, ret,
               [](SlimTensor& t) { return t.mutable_strides(); });
}

PTERON_AOTI_SHIM(AOTITorchError, get_size)(AtenTensorHandle tensor, int64_t dim, int64_t* ret) {
  return c_boundary("aoti_torch_get_size", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_handle(tensor, "the tensor"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_CHECK_OR_RETURN(tensor->dim() > 0, Error::InvalidArgument, "a tensor of no dimensions");
    PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, tensor->dim()));
    *ret = tensor->size(d);
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, get_stride)(AtenTensorHandle tensor, int64_t dim, int64_t* ret) {
  return c_boundary("aoti_torch_get_stride", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_handle(tensor, "the tensor"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_CHECK_OR_RETURN(tensor->dim() > 0, Error::InvalidArgument, "a tensor of no dimensions");
    PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, tensor->dim()));
    *ret = tensor->stride(d);
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, get_dtype)(AtenTensorHandle tensor, int32_t* ret) {
  return query("aoti_torch_get_dtype", tensor, ret,
               [](SlimTensor& t) { return static_cast<int32_t>(t.dtype()); });
}

PTERON_AOTI_SHIM(AOTITorchError, get_device_type)(AtenTensorHandle tensor, int32_t* ret) {
  return query("aoti_torch_get_device_type", tensor, ret,
               [](SlimTensor& t) { return static_cast<int32_t>(t.device().type); });
}

// -1 on the CPU, as torch says it.
PTERON_AOTI_SHIM(AOTITorchError, get_device_index)(AtenTensorHandle tensor, int32_t* ret) {
  return query("aoti_torch_get_device_index", tensor, ret, [](SlimTensor& t) {
    return t.device().type == DeviceType::CPU ? -1 : static_cast<int32_t>(t.device().index);
  });
}

// Always the strided layout.
PTERON_AOTI_SHIM(AOTITorchError, get_layout)(AtenTensorHandle tensor, int32_t* ret) {
  return query("aoti_torch_get_layout", tensor, ret, [](SlimTensor&) { return 0; });
}

PTERON_AOTI_SHIM(AOTITorchError, is_contiguous)(AtenTensorHandle tensor, bool* ret) {
  return query("aoti_torch_is_contiguous", tensor, ret,
               [](SlimTensor& t) { return t.is_contiguous(); });
}

PTERON_AOTI_SHIM(AOTITorchError, is_defined)(AtenTensorHandle tensor, bool* ret) {
  return query("aoti_torch_is_defined", tensor, ret, [](SlimTensor& t) { return t.is_defined(); });
}

}  // namespace pteron::aoti
