// Reading and writing elements by indices and masks.
#include <vector>

#include "pteron/backends/aoti/shims/device_operators.h"
#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/bytes.h"
#include "pteron/backends/cpu/runtime/shims/advanced_index.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"
#include "pteron/backends/cpu/runtime/shims/output_layout.h"

namespace pteron::cpu {
namespace {

// Null where an index is absent.
Result<std::vector<const SlimTensor*>> index_list(const AtenTensorHandle** indices, int64_t count) {
  PTERON_CHECK_OR_RETURN(count >= 0 && (count == 0 || indices), Error::InvalidArgument,
                         "found %lld indices, expected a list of them",
                         static_cast<long long>(count));
  std::vector<const SlimTensor*> list;
  for (int64_t i = 0; i < count; ++i) {
    list.push_back(indices[i] ? *indices[i] : nullptr);
    if (list.back())
      PTERON_RETURN_IF_ERROR(check_cpu_tensor(const_cast<SlimTensor*>(list.back()), "index"));
  }
  return list;
}

Error index(AtenTensorHandle self, const AtenTensorHandle** indices, int64_t count,
            AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  PTERON_ASSIGN_OR_RETURN(const std::vector<const SlimTensor*> list, index_list(indices, count));
  PTERON_ASSIGN_OR_RETURN(const AdvancedIndex indexing, AdvancedIndex::make(*self, list));
  PTERON_ASSIGN_OR_RETURN(TensorPtr picked, slim::make_tensor(indexing.sizes(), self->dtype()));
  PTERON_DISPATCH_BYTES(self->item_size(), B, {
    const B* from = self->data_as<const B>();
    B* to = picked->data_as<B>();
    indexing.for_each([&](int64_t at, int64_t i) { to[i] = from[at]; });
  });
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_ordered_like(indexing.sizes(), self->dtype(),
                                                           {indexing.strides().data()}));
  if (!out->is_contiguous()) {
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *picked));
    picked = std::move(out);
  }
  *ret = picked.release();
  return Error::Ok;
}

// Writes or adds `values`, broadcast, to the indexed elements of `target`.
Error put(const SlimTensor& target, Span<const SlimTensor* const> indices, const SlimTensor& values,
          bool accumulate) {
  PTERON_CHECK_OR_RETURN(values.dtype() == target.dtype(), Error::InvalidType,
                         "found values %s, self %s, expected one dtype", values.describe().c_str(),
                         target.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(const AdvancedIndex indexing, AdvancedIndex::make(target, indices));
  PTERON_ASSIGN_OR_RETURN(TensorPtr spread, slim::make_tensor(indexing.sizes(), values.dtype()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*spread, values));
  if (!accumulate) {
    PTERON_DISPATCH_BYTES(target.item_size(), B, {
      B* to = target.data_as<B>();
      const B* from = spread->data_as<const B>();
      indexing.for_each([&](int64_t at, int64_t i) { to[at] = from[i]; });
    });
    return Error::Ok;
  }
  bool done = false;
  PTERON_DISPATCH_REAL(target.dtype(), T, {
    using Sum = slim::accumulate_t<T>;
    T* to = target.data_as<T>();
    const T* from = spread->data_as<const T>();
    indexing.for_each([&](int64_t at, int64_t i) {
      to[at] = static_cast<T>(static_cast<Sum>(to[at]) + static_cast<Sum>(from[i]));
    });
    done = true;
  });
  return done ? Error(Error::Ok) : PTERON_CPU_NO_DTYPE(&target);
}

Error put_out(const SlimTensor& out, const SlimTensor& self, Span<const SlimTensor* const> indices,
              const SlimTensor& values, bool accumulate) {
  // Whatever can be wrong is found on a copy, so that `out` is not touched before.
  PTERON_ASSIGN_OR_RETURN(TensorPtr result, slim::clone_tensor(self));
  PTERON_RETURN_IF_ERROR(put(*result, indices, values, accumulate));
  return slim::copy_tensor(out, *result);
}

[[maybe_unused]] const bool registered =
    (aoti::register_index_put(DeviceType::CPU, &put_out), true);

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu_index_Tensor)
(AtenTensorHandle self, const AtenTensorHandle** indices, int64_t num_indices,
 AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_index_Tensor",
                    [&] { return index(self, indices, num_indices, ret); });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_index_put)
(AtenTensorHandle self, const AtenTensorHandle** indices, int64_t num_indices,
 AtenTensorHandle values, int32_t accumulate, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_index_put", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(values, "values"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_ASSIGN_OR_RETURN(const std::vector<const SlimTensor*> list,
                            index_list(indices, num_indices));
    PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_ordered_like(*self, self->dtype()));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *self));
    PTERON_RETURN_IF_ERROR(put(*out, list, *values, accumulate != 0));
    *ret = out.release();
    return Error::Ok;
  });
}

// One row of coordinates an element, laid out column by column.
PTERON_AOTI_SHIM(AOTITorchError, cpu_nonzero)(AtenTensorHandle self, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_nonzero", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    const auto rank = static_cast<int64_t>(self->dim());
    int64_t count = 0;
    std::vector<int64_t> coordinates;
    PTERON_ASSIGN_OR_RETURN(coordinates, nonzero_coordinates(*self));
    if (rank > 0) {
      count = static_cast<int64_t>(coordinates.size()) / rank;
    } else {
      PTERON_ASSIGN_OR_RETURN(TensorPtr flag,
                              slim::make_tensor(Span<const int64_t>(), DType::Bool));
      PTERON_RETURN_IF_ERROR(slim::copy_tensor(*flag, *self));
      count = *flag->data_as<bool>() ? 1 : 0;
    }
    const int64_t sizes[] = {count, rank}, strides[] = {1, std::max<int64_t>(count, 1)};
    PTERON_ASSIGN_OR_RETURN(TensorPtr out,
                            slim::make_tensor(sizes, strides, DType::Long, Device{}));
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t d = 0; d < rank; ++d) {
        out->data_as<int64_t>()[i + d * count] = coordinates[static_cast<size_t>(i * rank + d)];
      }
    }
    *ret = out.release();
    return Error::Ok;
  });
}

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
