// Contents of tensors: copies, zeros, item(), indexed writes.

#include "pteron/backends/aoti/ops/index/index.h"
#include "pteron/backends/aoti/ops/kernels.h"
#include "pteron/backends/aoti/ops/parameters.h"
#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/shims.h"
#include "pteron/backends/aoti/slim/core/numeric.h"
#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/core/run_control.h"

namespace pteron::aoti {
namespace {

using slim::DType;
using slim::Scalar;
using slim::SlimTensor;
using slim::TensorPtr;

// The single element of `tensor`, on any device.
Result<Scalar> item(AtenTensorHandle tensor) {
  PTERON_RETURN_IF_ERROR(check_defined(tensor, "the tensor"));
  PTERON_CHECK_OR_RETURN(tensor->numel() == 1, Error::InvalidArgument,
                         "found %s, expected a tensor of one element", tensor->describe().c_str());
  if (tensor->device().type == DeviceType::CPU) {
    return slim::load_scalar(tensor->dtype(), tensor->data());
  }
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, device_allocator_of(tensor->device()));
  alignas(16) char element[16];
  PTERON_RETURN_IF_ERROR(allocator->copy(element, Device{}, tensor->data(), tensor->device(),
                                         tensor->item_size(), Wait::Yes));
  return slim::load_scalar(tensor->dtype(), element);
}

// Converted to the C++ type of `dtype`. Loops in compiled code read their condition by it, so that a
// run which is cancelled, or is out of time, ends there.
template <typename T>
AOTITorchError item_as(const char* shim, DType dtype, AtenTensorHandle tensor, T* ret) {
  return c_boundary(shim, [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    RunControl* const control = RunControl::current();
    if (control && control->is_asked()) PTERON_RETURN_IF_ERROR(control->look());
    PTERON_ASSIGN_OR_RETURN(const Scalar value, item(tensor));
    slim::store_scalar(dtype, ret, value);
    return Error::Ok;
  });
}

// A 0-d tensor on the CPU.
template <typename T>
AOTITorchError scalar_to_tensor(const char* shim, DType dtype, T value, AtenTensorHandle* ret) {
  return give_tensor(shim, ret, [&]() -> Result<TensorPtr> {
    PTERON_ASSIGN_OR_RETURN(TensorPtr tensor, slim::make_tensor(Span<const int64_t>(), dtype));
    *tensor->data_as<T>() = value;
    return tensor;
  });
}

Error copy_into(AtenTensorHandle self, AtenTensorHandle source, bool non_blocking) {
  PTERON_RETURN_IF_ERROR(check_defined(self, "self"));
  PTERON_RETURN_IF_ERROR(check_defined(source, "the source"));
  return slim::copy_tensor(*self, *source, non_blocking);
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, clone)(AtenTensorHandle self, AtenTensorHandle* ret) {
  return give_tensor("aoti_torch_clone", ret, [&]() -> Result<TensorPtr> {
    PTERON_RETURN_IF_ERROR(check_defined(self, "self"));
    return slim::clone_tensor(*self);
  });
}

// Keeps the strides; memory between elements is not copied.
PTERON_AOTI_SHIM(AOTITorchError, clone_preserve_strides)
(AtenTensorHandle self, AtenTensorHandle* ret) {
  return give_tensor("aoti_torch_clone_preserve_strides", ret, [&]() -> Result<TensorPtr> {
    PTERON_RETURN_IF_ERROR(check_defined(self, "self"));
    PTERON_ASSIGN_OR_RETURN(TensorPtr clone, slim::make_tensor(self->sizes(), self->strides(),
                                                               self->dtype(), self->device()));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*clone, *self));
    return clone;
  });
}

// Converts the dtype and broadcasts the sizes.
PTERON_AOTI_SHIM(AOTITorchError, copy_)
(AtenTensorHandle self, AtenTensorHandle source, int32_t non_blocking) {
  return c_boundary("aoti_torch_copy_", [&] { return copy_into(self, source, non_blocking != 0); });
}

PTERON_AOTI_SHIM(AOTITorchError, tensor_copy_)(AtenTensorHandle source, AtenTensorHandle target) {
  return c_boundary("aoti_torch_tensor_copy_", [&] { return copy_into(target, source, false); });
}

PTERON_AOTI_SHIM(AOTITorchError, zero_)(AtenTensorHandle self) {
  return c_boundary("aoti_torch_zero_", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_defined(self, "self"));
    return slim::zero_tensor(*self);
  });
}

#define PTERON_ITEM_SHIM(name, type, dtype_name)                                       \
  PTERON_AOTI_SHIM(AOTITorchError, item_##name)(AtenTensorHandle tensor, type * ret) { \
    return item_as("aoti_torch_item_" #name, DType::dtype_name, tensor, ret);          \
  }

#define PTERON_SCALAR_SHIM(name, type, dtype_name)                                                \
  PTERON_AOTI_SHIM(AOTITorchError, scalar_to_tensor_##name)(type value, AtenTensorHandle * ret) { \
    return scalar_to_tensor("aoti_torch_scalar_to_tensor_" #name, DType::dtype_name, value, ret); \
  }

#define PTERON_ITEM_AND_SCALAR_SHIMS(name, type, dtype_name) \
  PTERON_ITEM_SHIM(name, type, dtype_name)                   \
  PTERON_SCALAR_SHIM(name, type, dtype_name)

PTERON_ITEM_SHIM(float16, uint16_t, Half)  // the bits, as in the C ABI's struct
PTERON_ITEM_SHIM(bfloat16, uint16_t, BFloat16)
PTERON_ITEM_AND_SCALAR_SHIMS(float32, float, Float)
PTERON_ITEM_AND_SCALAR_SHIMS(float64, double, Double)
PTERON_ITEM_AND_SCALAR_SHIMS(uint8, uint8_t, Byte)
PTERON_ITEM_AND_SCALAR_SHIMS(uint16, uint16_t, UInt16)
PTERON_ITEM_AND_SCALAR_SHIMS(uint32, uint32_t, UInt32)
PTERON_ITEM_AND_SCALAR_SHIMS(uint64, uint64_t, UInt64)
PTERON_ITEM_AND_SCALAR_SHIMS(int8, int8_t, Char)
PTERON_ITEM_AND_SCALAR_SHIMS(int16, int16_t, Short)
PTERON_ITEM_AND_SCALAR_SHIMS(int32, int32_t, Int)
PTERON_ITEM_AND_SCALAR_SHIMS(int64, int64_t, Long)
PTERON_ITEM_AND_SCALAR_SHIMS(bool, bool, Bool)

PTERON_ITEM_AND_SCALAR_SHIMS(complex64, AbiComplexFloat, ComplexFloat)
PTERON_SCALAR_SHIM(complex128, AbiComplexDouble, ComplexDouble)

#undef PTERON_ITEM_SHIM
#undef PTERON_SCALAR_SHIM
#undef PTERON_ITEM_AND_SCALAR_SHIMS

PTERON_AOTI_SHIM(AOTITorchError, index_put_out)
(AtenTensorHandle out, AtenTensorHandle self, const AtenTensorHandle* indices, uint32_t num_indices,
 const AtenTensorHandle values, bool accumulate) {
  return c_boundary("aoti_torch_index_put_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_defined(self, "self"));
    const DeviceType type = self->device().type;
    CallDevice device(type);
    PTERON_RETURN_IF_ERROR(device.check(self, "self"));
    PTERON_RETURN_IF_ERROR(device.check(out, "out"));
    PTERON_RETURN_IF_ERROR(device.check(values, "values"));
    if (num_indices > 0) PTERON_RETURN_IF_ERROR(check_pointer(indices, "indices"));
    for (uint32_t i = 0; i < num_indices; ++i) {
      if (!indices[i] || !indices[i]->is_defined()) continue;
      PTERON_RETURN_IF_ERROR(device.check(indices[i], "an index"));
    }
    const Kernels* kernels = find_kernels(type);
    PTERON_CHECK_OR_RETURN(kernels, Error::NotSupported,
                           "no backend in this process provides it for device type %d",
                           static_cast<int>(type));
    return ops::index_put_out(*kernels, *out, *self,
                              Span<const SlimTensor* const>(indices, num_indices), *values,
                              accumulate);
  });
}

}  // namespace pteron::aoti
