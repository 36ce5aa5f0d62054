// Masks, and repeating.
#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/bytes.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"
#include "pteron/backends/cpu/runtime/shims/output_layout.h"

namespace pteron::cpu {

PTERON_AOTI_SHIM(AOTITorchError, cpu_masked_select)
(AtenTensorHandle self, AtenTensorHandle mask, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_masked_select", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(mask, "mask"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_CHECK_OR_RETURN(mask->dtype() == DType::Bool, Error::InvalidType,
                           "found mask %s, expected bool", mask->describe().c_str());
    PTERON_ASSIGN_OR_RETURN(const Broadcast shape, broadcast(*self, *mask));
    PTERON_ASSIGN_OR_RETURN(TensorPtr values, slim::make_tensor(shape.shape(), self->dtype()));
    PTERON_ASSIGN_OR_RETURN(TensorPtr flags, slim::make_tensor(shape.shape(), DType::Bool));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*values, *self));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*flags, *mask));
    const uint8_t* flag = flags->data_as<const uint8_t>();
    int64_t count = 0;
    for (int64_t i = 0; i < flags->numel(); ++i) count += flag[i] != 0;
    PTERON_ASSIGN_OR_RETURN(TensorPtr out,
                            slim::make_tensor(Span<const int64_t>(&count, 1), self->dtype()));
    PTERON_DISPATCH_BYTES(self->item_size(), B, {
      B* to = out->data_as<B>();
      const B* from = values->data_as<const B>();
      for (int64_t i = 0; i < flags->numel(); ++i) {
        if (flag[i]) *to++ = from[i];
      }
    });
    *ret = out.release();
    return Error::Ok;
  });
}

// Elements of `source`, in order, go to where `mask` holds.
PTERON_AOTI_SHIM(AOTITorchError, cpu_masked_scatter)
(AtenTensorHandle self, AtenTensorHandle mask, AtenTensorHandle source, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_masked_scatter", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(mask, "mask"));
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(source, "source"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_CHECK_OR_RETURN(
        mask->dtype() == DType::Bool && source->dtype() == self->dtype(), Error::InvalidType,
        "found self %s, mask %s, source %s, expected a bool mask and a source of self's dtype",
        self->describe().c_str(), mask->describe().c_str(), source->describe().c_str());
    PTERON_ASSIGN_OR_RETURN(const Broadcast shape, broadcast(*self, *mask));
    PTERON_ASSIGN_OR_RETURN(TensorPtr out, slim::make_tensor(shape.shape(), self->dtype()));
    PTERON_ASSIGN_OR_RETURN(TensorPtr flags, slim::make_tensor(shape.shape(), DType::Bool));
    PTERON_ASSIGN_OR_RETURN(TensorPtr from, slim::contiguous_tensor(*source));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *self));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*flags, *mask));
    const uint8_t* flag = flags->data_as<const uint8_t>();
    int64_t count = 0;
    for (int64_t i = 0; i < flags->numel(); ++i) count += flag[i] != 0;
    PTERON_CHECK_OR_RETURN(
        count <= source->numel(), Error::InvalidArgument,
        "found a mask of %lld elements that hold and source %s, expected no fewer elements in it",
        static_cast<long long>(count), source->describe().c_str());
    PTERON_DISPATCH_BYTES(self->item_size(), B, {
      const B* next = from->data_as<const B>();
      B* to = out->data_as<B>();
      for (int64_t i = 0; i < flags->numel(); ++i) {
        if (flag[i]) to[i] = *next++;
      }
    });
    *ret = out.release();
    return Error::Ok;
  });
}

// Index i, repeats[i] times, for all i.
PTERON_AOTI_SHIM(AOTITorchError, cpu_repeat_interleave_Tensor)
(AtenTensorHandle repeats, int64_t* output_size, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_repeat_interleave_Tensor", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(repeats, "repeats"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_CHECK_OR_RETURN(
        repeats->dim() == 1 && (repeats->dtype() == DType::Long || repeats->dtype() == DType::Int),
        Error::InvalidArgument,
        "found repeats %s, expected int32 or int64 numbers in one dimension",
        repeats->describe().c_str());
    PTERON_ASSIGN_OR_RETURN(TensorPtr counts, slim::make_tensor(repeats->sizes(), DType::Long));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*counts, *repeats));
    int64_t total = 0;
    for (int64_t i = 0; i < counts->numel(); ++i) {
      const int64_t count = counts->data_as<int64_t>()[i];
      PTERON_CHECK_OR_RETURN(count >= 0 && !__builtin_add_overflow(total, count, &total),
                             Error::InvalidArgument,
                             "found repeat %lld at %lld, expected 0 or more",
                             static_cast<long long>(count), static_cast<long long>(i));
    }
    PTERON_CHECK_OR_RETURN(!output_size || *output_size == total, Error::InvalidArgument,
                           "found repeats that sum to %lld, expected the output size %lld",
                           static_cast<long long>(total), static_cast<long long>(*output_size));
    PTERON_ASSIGN_OR_RETURN(TensorPtr out,
                            slim::make_tensor(Span<const int64_t>(&total, 1), repeats->dtype()));
    int64_t next = 0;
    for (int64_t i = 0; i < counts->numel(); ++i) {
      for (int64_t k = counts->data_as<int64_t>()[i]; k > 0; --k, ++next) {
        if (repeats->dtype() == DType::Long) {
          out->data_as<int64_t>()[next] = i;
        } else {
          out->data_as<int32_t>()[next] = static_cast<int32_t>(i);
        }
      }
    }
    *ret = out.release();
    return Error::Ok;
  });
}

}  // namespace pteron::cpu
