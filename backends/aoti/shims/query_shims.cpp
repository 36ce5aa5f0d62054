// Tensor metadata. Pointers to sizes and strides are borrowed and valid as long as the handle.
#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/failed_check.h"
#include "pteron/backends/aoti/shims/shims.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {
namespace {

using slim::SlimTensor;

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

// The size or the stride of a dimension.
AOTITorchError query_dim(const char* shim, AtenTensorHandle tensor, int64_t dim, int64_t* ret,
                         int64_t (SlimTensor::*value)(size_t) const) {
  return c_boundary(shim, [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_handle(tensor, "the tensor"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_CHECK_OR_RETURN(tensor->dim() > 0, Error::InvalidArgument, "a 0-d tensor");
    PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, tensor->dim()));
    *ret = (tensor->*value)(d);
    return Error::Ok;
  });
}

}  // namespace

// Of the first element, with the storage offset; null for an undefined tensor. A failed run gets no
// data.
PTERON_AOTI_SHIM(AOTITorchError, get_data_ptr)(AtenTensorHandle tensor, void** ret) {
  if (__builtin_expect(run_has_failed(), 0)) return kAotiFailure;
  return query("aoti_torch_get_data_ptr", tensor, ret, [](SlimTensor& t) { return t.data(); });
}

PTERON_AOTI_SHIM(AOTITorchError, get_size)(AtenTensorHandle tensor, int64_t dim, int64_t* ret) {
  return query_dim("aoti_torch_get_size", tensor, dim, ret, &SlimTensor::size);
}

PTERON_AOTI_SHIM(AOTITorchError, get_stride)(AtenTensorHandle tensor, int64_t dim, int64_t* ret) {
  return query_dim("aoti_torch_get_stride", tensor, dim, ret, &SlimTensor::stride);
}

// `value` of tensor `t`.
#define PTERON_QUERY_SHIM(name, type, value)                                               \
  PTERON_AOTI_SHIM(AOTITorchError, name)(AtenTensorHandle tensor, type * ret) {            \
    return query("aoti_torch_" #name, tensor, ret,                                         \
                 []([[maybe_unused]] SlimTensor& t) { return static_cast<type>(value); }); \
  }

PTERON_QUERY_SHIM(get_storage_size, int64_t, t.is_defined() ? t.storage()->nbytes : 0)  // in bytes
PTERON_QUERY_SHIM(get_storage_numel, int64_t,
                  t.is_defined() ? t.storage()->nbytes / t.item_size() : 0)
PTERON_QUERY_SHIM(get_storage_offset, int64_t, t.storage_offset())  // in elements
PTERON_QUERY_SHIM(get_dim, int64_t, t.dim())
PTERON_QUERY_SHIM(get_numel, int64_t, t.numel())
PTERON_QUERY_SHIM(get_sizes, int64_t*, t.mutable_sizes())
PTERON_QUERY_SHIM(get_strides, int64_t*, t.mutable_strides())
PTERON_QUERY_SHIM(get_dtype, int32_t, t.dtype())
PTERON_QUERY_SHIM(get_device_type, int32_t, t.device().type)
// -1 on the CPU, as in torch.
PTERON_QUERY_SHIM(get_device_index, int32_t,
                  t.device().type == DeviceType::CPU ? -1 : t.device().index)
PTERON_QUERY_SHIM(get_layout, int32_t, 0)  // strided
PTERON_QUERY_SHIM(is_contiguous, bool, t.is_contiguous())
PTERON_QUERY_SHIM(is_defined, bool, t.is_defined())

#undef PTERON_QUERY_SHIM

}  // namespace pteron::aoti
