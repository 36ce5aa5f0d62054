// Creation, deletion and views of tensors. Every function returns a new handle that the caller
// deletes, unless noted.
#include <utility>

#include "pteron/backends/aoti/ops/views.h"
#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/handle_scope.h"
#include "pteron/backends/aoti/shims/shims.h"
#include "pteron/runtime/core/device_allocator.h"

namespace pteron::aoti {
namespace {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

struct Shape {
  Span<const int64_t> sizes;
  Span<const int64_t> strides;
};

Result<Shape> shape_argument(int64_t ndim, const int64_t* sizes, const int64_t* strides) {
  PTERON_ASSIGN_OR_RETURN(const Span<const int64_t> s, list_argument(sizes, ndim, "sizes"));
  PTERON_ASSIGN_OR_RETURN(const Span<const int64_t> t, list_argument(strides, ndim, "strides"));
  return Shape{s, t};
}

Result<TensorPtr> from_blob(void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides,
                            int64_t storage_offset, int32_t dtype, int32_t device_type,
                            int32_t device_index) {
  PTERON_ASSIGN_OR_RETURN(const Shape shape, shape_argument(ndim, sizes, strides));
  PTERON_ASSIGN_OR_RETURN(const DType type, dtype_argument(dtype));
  PTERON_ASSIGN_OR_RETURN(const Device device, device_argument(device_type, device_index));
  return slim::make_tensor_from_blob(data, shape.sizes, shape.strides, storage_offset, type,
                                     device);
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, empty_strided)
(int64_t ndim, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device_type,
 int32_t device_index, AtenTensorHandle* ret) {
  return give_tensor("aoti_torch_empty_strided", ret, [&]() -> Result<TensorPtr> {
    PTERON_ASSIGN_OR_RETURN(const Shape shape, shape_argument(ndim, sizes, strides));
    PTERON_ASSIGN_OR_RETURN(const DType type, dtype_argument(dtype));
    PTERON_ASSIGN_OR_RETURN(const Device device, device_argument(device_type, device_index));
    return slim::make_tensor(shape.sizes, shape.strides, type, device);
  });
}

// In host memory that the given device can access fast (pinned).
PTERON_AOTI_SHIM(AOTITorchError, empty_strided_pinned)
(int64_t ndim, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device_type,
 int32_t device_index, AtenTensorHandle* ret) {
  return give_tensor("aoti_torch_empty_strided_pinned", ret, [&]() -> Result<TensorPtr> {
    PTERON_ASSIGN_OR_RETURN(const Shape shape, shape_argument(ndim, sizes, strides));
    PTERON_ASSIGN_OR_RETURN(const DType type, dtype_argument(dtype));
    PTERON_ASSIGN_OR_RETURN(const Device device, device_argument(device_type, device_index));
    PTERON_ASSIGN_OR_RETURN(const size_t nbytes,
                            slim::storage_nbytes(shape.sizes, shape.strides, type));
    // Generated code passes the CPU as device; the model's device is meant.
    DeviceAllocator* const allocator =
        find_device_allocator(device.type == DeviceType::CPU ? DeviceType::CUDA : device.type);
    slim::StorageRef storage;
    if (allocator) {
      PTERON_ASSIGN_OR_RETURN(storage, allocator->allocate_pinned(nbytes));
    }
    if (!storage) {
      PTERON_ASSIGN_OR_RETURN(storage, slim::allocate_storage(nbytes, {}));
    }
    auto tensor = std::make_unique<SlimTensor>();
    PTERON_RETURN_IF_ERROR(tensor->set(std::move(storage), shape.sizes, shape.strides, 0, type));
    return tensor;
  });
}

// `data` is borrowed.
PTERON_AOTI_SHIM(AOTITorchError, create_tensor_from_blob)
(void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t storage_offset,
 int32_t dtype, int32_t device_type, int32_t device_index, AtenTensorHandle* ret) {
  return give_tensor("aoti_torch_create_tensor_from_blob", ret, [&] {
    return from_blob(data, ndim, sizes, strides, storage_offset, dtype, device_type, device_index);
  });
}

// Only the strided layout; others carry data that only their library understands.
PTERON_AOTI_SHIM(AOTITorchError, create_tensor_from_blob_v2)
(void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t storage_offset,
 int32_t dtype, int32_t device_type, int32_t device_index, AtenTensorHandle* ret, int32_t layout,
 const uint8_t*, int64_t opaque_metadata_size) {
  return give_tensor("aoti_torch_create_tensor_from_blob_v2", ret, [&]() -> Result<TensorPtr> {
    PTERON_CHECK_OR_RETURN(layout == 0 && opaque_metadata_size == 0, Error::NotSupported,
                           "layout %d with %lld bytes of metadata; only the strided layout (0) is "
                           "supported: lower the model without mkldnn weight packing",
                           layout, static_cast<long long>(opaque_metadata_size));
    return from_blob(data, ndim, sizes, strides, storage_offset, dtype, device_type, device_index);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, new_uninitialized_tensor)(AtenTensorHandle* ret) {
  return give_tensor("aoti_torch_new_uninitialized_tensor", ret,
                     []() -> Result<TensorPtr> { return std::make_unique<SlimTensor>(); });
}

PTERON_AOTI_SHIM(AOTITorchError, new_tensor_handle)
(AtenTensorHandle original, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_new_tensor_handle", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_handle(original, "the tensor"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    TensorPtr alias = slim::make_alias(*original);
    SlimTensor* handle = alias.get();
    if (HandleScope* scope = HandleScope::current()) scope->add(handle);
    alias.release();
    *ret = handle;
    return Error::Ok;
  });
}

// `target` becomes an alias of `source`; both handles stay valid.
PTERON_AOTI_SHIM(AOTITorchError, assign_tensors)
(AtenTensorHandle source, AtenTensorHandle target) {
  return c_boundary("aoti_torch_assign_tensors", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_handle(source, "the source"));
    PTERON_RETURN_IF_ERROR(check_handle(target, "the target"));
    *target = *source;
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, assign_tensors_out)
(AtenTensorHandle source, AtenTensorHandle* ret) {
  return give_tensor("aoti_torch_assign_tensors_out", ret, [&]() -> Result<TensorPtr> {
    PTERON_RETURN_IF_ERROR(check_handle(source, "the source"));
    return slim::make_alias(*source);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, delete_tensor_object)(AtenTensorHandle tensor) {
  delete tensor;
  return kAotiSuccess;
}

// `offset_increment`, in elements, is relative to the start of `self`.
PTERON_AOTI_SHIM(AOTITorchError, _reinterpret_tensor)
(AtenTensorHandle self, int64_t ndim, const int64_t* sizes, const int64_t* strides,
 int64_t offset_increment, AtenTensorHandle* ret) {
  return give_tensor("aoti_torch__reinterpret_tensor", ret, [&]() -> Result<TensorPtr> {
    PTERON_RETURN_IF_ERROR(check_defined(self, "self"));
    PTERON_ASSIGN_OR_RETURN(const Shape shape, shape_argument(ndim, sizes, strides));
    int64_t offset = 0;
    PTERON_CHECK_OR_RETURN(
        !__builtin_add_overflow(self->storage_offset(), offset_increment, &offset),
        Error::InvalidArgument, "offset increment %lld", static_cast<long long>(offset_increment));
    return make_view(*self, shape.sizes, shape.strides, offset);
  });
}

// `offset_bytes` is relative to the start of `self`.
PTERON_AOTI_SHIM(AOTITorchError, _alloc_from_pool)
(AtenTensorHandle self, int64_t offset_bytes, int32_t dtype, int64_t ndim, const int64_t* sizes,
 const int64_t* strides, AtenTensorHandle* ret) {
  return give_tensor("aoti_torch__alloc_from_pool", ret, [&]() -> Result<TensorPtr> {
    PTERON_RETURN_IF_ERROR(check_defined(self, "self"));
    PTERON_ASSIGN_OR_RETURN(const Shape shape, shape_argument(ndim, sizes, strides));
    PTERON_ASSIGN_OR_RETURN(const DType type, dtype_argument(dtype));
    const int64_t begin = self->storage_offset() * static_cast<int64_t>(self->item_size());
    const auto item_size = static_cast<int64_t>(slim::element_size(type));
    int64_t offset = 0;
    PTERON_CHECK_OR_RETURN(offset_bytes >= 0 &&
                               !__builtin_add_overflow(begin, offset_bytes, &offset) &&
                               offset % item_size == 0,
                           Error::InvalidArgument, "offset of %lld bytes for %s",
                           static_cast<long long>(offset_bytes), slim::name_of(type));
    return make_view(*self, shape.sizes, shape.strides, offset / item_size, type);
  });
}

// As many dimensions as `self` has.
PTERON_AOTI_SHIM(AOTITorchError, as_strided)
(AtenTensorHandle self, const int64_t* sizes, const int64_t* strides, AtenTensorHandle* ret) {
  return give_tensor("aoti_torch_as_strided", ret, [&]() -> Result<TensorPtr> {
    PTERON_RETURN_IF_ERROR(check_defined(self, "self"));
    PTERON_ASSIGN_OR_RETURN(const Shape shape,
                            shape_argument(static_cast<int64_t>(self->dim()), sizes, strides));
    return make_view(*self, shape.sizes, shape.strides, self->storage_offset());
  });
}

}  // namespace pteron::aoti
