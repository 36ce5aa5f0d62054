#include "pteron/backends/aoti/slim/core/tensor_copy.h"

#include <algorithm>
#include <cstring>

#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/core/strided_copy.h"

namespace pteron::slim {
namespace {

// The strides of `source` expanded to the sizes of `target`.
Error broadcast_strides(const SlimTensor& target, const SlimTensor& source, int64_t* strides) {
  bool fits = source.dim() <= target.dim();
  const size_t extra = fits ? target.dim() - source.dim() : 0;
  for (size_t i = 0; fits && i < target.dim(); ++i) {
    if (i < extra) {
      strides[i] = 0;
    } else if (source.size(i - extra) == target.size(i)) {
      strides[i] = source.stride(i - extra);
    } else {
      fits = source.size(i - extra) == 1;
      strides[i] = 0;
    }
  }
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument, "%s cannot be broadcast to %s",
                         source.describe().c_str(), target.describe().c_str());
  return Error::Ok;
}

bool is_dense(const SlimTensor& tensor) {
  const Result<size_t> nbytes = storage_nbytes(tensor.sizes(), tensor.strides(), tensor.dtype());
  if (!nbytes.ok() || *nbytes != tensor.nbytes()) return false;
  // Dense: the extent equals the number of elements, so no two share an address.
  int64_t order[kMaxDims];
  size_t n = 0;
  for (size_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) != 1) order[n++] = static_cast<int64_t>(i);
  }
  std::sort(order, order + n, [&](int64_t a, int64_t b) {
    return tensor.stride(static_cast<size_t>(a)) < tensor.stride(static_cast<size_t>(b));
  });
  int64_t expected = 1;
  for (size_t k = 0; k < n; ++k) {
    const auto i = static_cast<size_t>(order[k]);
    if (tensor.stride(i) != expected) return false;
    expected *= tensor.size(i);
  }
  return true;
}

// Whether both are dense with the same dim order, so that bytes can be copied.
bool is_one_run(const SlimTensor& target, const SlimTensor& source) {
  if (target.is_contiguous() && source.is_contiguous()) return true;
  for (size_t i = 0; i < target.dim(); ++i) {
    if (target.size(i) != 1 && target.stride(i) != source.stride(i)) return false;
  }
  return is_dense(target);
}

Result<TensorPtr> contiguous_like(const SlimTensor& tensor, Device device) {
  int64_t strides[kMaxDims];
  contiguous_strides(tensor.sizes(), strides);
  return make_tensor(tensor.sizes(), Span<const int64_t>(strides, tensor.dim()), tensor.dtype(),
                     device);
}

// At least one is not on the host; equal sizes.
Error copy_on_devices(const SlimTensor& target, const SlimTensor& source, bool non_blocking) {
  PTERON_CHECK_OR_RETURN(target.dtype() == source.dtype(), Error::NotSupported,
                         "a copy between devices cannot convert %s to %s",
                         source.describe().c_str(), target.describe().c_str());
  const Device to = target.device(), from = source.device();
  const bool with_host = to.type == DeviceType::CPU || from.type == DeviceType::CPU;
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator,
                          device_allocator_of(to.type == DeviceType::CPU ? from : to));
  if (is_one_run(target, source)) {
    return allocator->copy(target.data(), to, source.data(), from, target.nbytes(),
                           with_host && !non_blocking ? Wait::Yes : Wait::No);
  }
  if (to == from) {
    return allocator->copy_strided(target.data(), target.strides().data(), source.data(),
                                   source.strides().data(), target.sizes().data(), target.dim(),
                                   target.item_size(), to);
  }
  PTERON_CHECK_OR_RETURN(with_host, Error::NotSupported,
                         "copying from %s %s to %s %s: make both contiguous first",
                         describe(from).c_str(), source.describe().c_str(), describe(to).c_str(),
                         target.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(TensorPtr packed, contiguous_like(source, from));
  PTERON_ASSIGN_OR_RETURN(TensorPtr moved, contiguous_like(source, to));
  PTERON_RETURN_IF_ERROR(copy_tensor(*packed, source));
  PTERON_RETURN_IF_ERROR(copy_tensor(*moved, *packed));
  return copy_tensor(target, *moved);
}

}  // namespace

bool may_overlap(const SlimTensor& a, const SlimTensor& b) {
  if (!a.is_defined() || !b.is_defined() || a.numel() == 0 || b.numel() == 0) return false;
  if (a.device() != b.device()) return false;
  const Result<size_t> a_bytes = storage_nbytes(a.sizes(), a.strides(), a.dtype());
  const Result<size_t> b_bytes = storage_nbytes(b.sizes(), b.strides(), b.dtype());
  if (!a_bytes.ok() || !b_bytes.ok()) return true;
  const auto a_begin = reinterpret_cast<uintptr_t>(a.data());
  const auto b_begin = reinterpret_cast<uintptr_t>(b.data());
  return a_begin < b_begin + *b_bytes && b_begin < a_begin + *a_bytes;
}

Error copy_tensor(const SlimTensor& target, const SlimTensor& source, bool non_blocking) {
  int64_t strides[kMaxDims];
  PTERON_RETURN_IF_ERROR(broadcast_strides(target, source, strides));
  if (target.numel() == 0) return Error::Ok;
  if (target.data() == source.data() && target.device() == source.device() &&
      target.dtype() == source.dtype() &&
      std::equal(strides, strides + target.dim(), target.strides().begin())) {
    return Error::Ok;
  }

  if (may_overlap(target, source)) {
    // Elements are copied in any order, on a GPU at once.
    PTERON_ASSIGN_OR_RETURN(TensorPtr staged, contiguous_like(source, source.device()));
    PTERON_RETURN_IF_ERROR(copy_tensor(*staged, source));
    return copy_tensor(target, *staged);
  }
  const bool on_cpu =
      target.device().type == DeviceType::CPU && source.device().type == DeviceType::CPU;
  if (!on_cpu) {
    SlimTensor expanded;
    PTERON_RETURN_IF_ERROR(expanded.set(source.storage(), target.sizes(),
                                        Span<const int64_t>(strides, target.dim()),
                                        source.storage_offset(), source.dtype()));
    return copy_on_devices(target, expanded, non_blocking);
  }

  if (target.dtype() == source.dtype()) {
    copy_strided(target.data(), target.strides().data(), source.data(), strides,
                 target.sizes().data(), target.dim(), target.item_size());
    return Error::Ok;
  }
  const StridedPlan plan(target.strides().data(), strides, target.sizes().data(), target.dim());
  char* const to = target.data_as<char>();
  const char* const from = source.data_as<char>();
  const auto to_bytes = static_cast<int64_t>(target.item_size());
  const auto from_bytes = static_cast<int64_t>(source.item_size());
  plan.for_each_run([&](int64_t t, int64_t s, int64_t count, int64_t t_stride, int64_t s_stride) {
    for (int64_t i = 0; i < count; ++i) {
      store_scalar(target.dtype(), to + (t + i * t_stride) * to_bytes,
                   load_scalar(source.dtype(), from + (s + i * s_stride) * from_bytes));
    }
  });
  return Error::Ok;
}

Result<TensorPtr> clone_tensor(const SlimTensor& tensor) {
  int64_t strides[kMaxDims];
  if (is_dense(tensor)) {
    std::copy(tensor.strides().begin(), tensor.strides().end(), strides);
  } else {
    contiguous_strides(tensor.sizes(), strides);
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr clone,
                          make_tensor(tensor.sizes(), Span<const int64_t>(strides, tensor.dim()),
                                      tensor.dtype(), tensor.device()));
  PTERON_RETURN_IF_ERROR(copy_tensor(*clone, tensor));
  return clone;
}

Result<TensorPtr> contiguous_tensor(const SlimTensor& tensor) {
  if (tensor.is_contiguous()) return make_alias(tensor);
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy, contiguous_like(tensor, tensor.device()));
  PTERON_RETURN_IF_ERROR(copy_tensor(*copy, tensor));
  return copy;
}

Error zero_tensor(const SlimTensor& tensor) {
  if (tensor.numel() == 0) return Error::Ok;
  if (tensor.device().type == DeviceType::CPU) {
    fill_tensor(tensor, Scalar());
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, device_allocator_of(tensor.device()));
  if (is_dense(tensor)) {
    return allocator->fill_zero(tensor.data(), tensor.nbytes(), tensor.device(), Wait::No);
  }
  return allocator->copy_strided(tensor.data(), tensor.strides().data(), nullptr, nullptr,
                                 tensor.sizes().data(), tensor.dim(), tensor.item_size(),
                                 tensor.device());
}

void fill_tensor(const SlimTensor& tensor, const Scalar& value) {
  if (tensor.numel() == 0) return;
  char element[16];
  store_scalar(tensor.dtype(), element, value);
  const size_t item_size = tensor.item_size();
  const bool zero = std::all_of(element, element + item_size, [](char c) { return c == 0; });
  if (zero && is_dense(tensor)) {
    std::memset(tensor.data(), 0, tensor.nbytes());
    return;
  }
  const int64_t source_strides[kMaxDims] = {0};
  copy_strided(tensor.data(), tensor.strides().data(), element, source_strides,
               tensor.sizes().data(), tensor.dim(), item_size);
}

}  // namespace pteron::slim
