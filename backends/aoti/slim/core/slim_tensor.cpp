#include "pteron/backends/aoti/slim/core/slim_tensor.h"

#include <new>

#include "pteron/backends/aoti/slim/core/caching_allocator.h"

namespace pteron::slim {
namespace {

void append_list(std::string* text, Span<const int64_t> values) {
  *text += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) *text += ", ";
    *text += std::to_string(values[i]);
  }
  *text += ']';
}

struct Extent {
  int64_t numel;
  int64_t span;  // elements from the first to one past the last
};

Result<Extent> extent_of(Span<const int64_t> sizes, Span<const int64_t> strides) {
  PTERON_CHECK_OR_RETURN(sizes.size() <= kMaxDims, Error::InvalidArgument,
                         "%zu dimensions, at most %zu are possible", sizes.size(), kMaxDims);
  PTERON_CHECK_OR_RETURN(sizes.size() == strides.size(), Error::InvalidArgument,
                         "%zu sizes but %zu strides", sizes.size(), strides.size());
  Extent extent{1, 1};
  bool overflow = false, empty = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    PTERON_CHECK_OR_RETURN(sizes[i] >= 0, Error::InvalidArgument, "size %lld in dimension %zu",
                           static_cast<long long>(sizes[i]), i);
    PTERON_CHECK_OR_RETURN(strides[i] >= 0, Error::InvalidArgument, "stride %lld in dimension %zu",
                           static_cast<long long>(strides[i]), i);
    empty |= sizes[i] == 0;
    overflow |= __builtin_mul_overflow(extent.numel, sizes[i], &extent.numel);
    if (sizes[i] > 1) {
      int64_t reach = 0;
      overflow |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &reach);
      overflow |= __builtin_add_overflow(extent.span, reach, &extent.span);
    }
  }
  if (empty) return Extent{0, 0};
  PTERON_CHECK_OR_RETURN(!overflow, Error::InvalidArgument, "more elements than can be counted");
  return extent;
}

Result<size_t> bytes_of(const Extent& extent, DType dtype) {
  size_t nbytes = 0;
  PTERON_CHECK_OR_RETURN(
      !__builtin_mul_overflow(static_cast<size_t>(extent.span), element_size(dtype), &nbytes),
      Error::InvalidArgument, "more bytes than can be counted");
  return nbytes;
}

}  // namespace

void* SlimTensor::operator new(size_t size) { return cached_allocate(size).data; }

void SlimTensor::operator delete(void* tensor) noexcept {
  // All have one size.
  static const uint32_t size_class = [] {
    const CachedBlock block = cached_allocate(sizeof(SlimTensor));
    cached_free(block);
    return block.size_class;
  }();
  if (tensor) cached_free({tensor, size_class});
}

SlimTensor& SlimTensor::operator=(const SlimTensor& other) {
  if (this == &other) return *this;
  storage_ = other.storage_;
  storage_offset_ = other.storage_offset_;
  numel_ = other.numel_;
  dtype_ = other.dtype_;
  dim_ = other.dim_;
  std::memcpy(sizes_, other.sizes_, dim_ * sizeof(int64_t));
  std::memcpy(strides_, other.strides_, dim_ * sizeof(int64_t));
  return *this;
}

bool SlimTensor::is_contiguous() const {
  int64_t expected = 1;
  if (numel_ == 0) return true;
  for (size_t i = dim_; i-- > 0;) {
    if (sizes_[i] == 1) continue;
    if (strides_[i] != expected) return false;
    expected *= sizes_[i];
  }
  return true;
}

Error SlimTensor::set(StorageRef storage, Span<const int64_t> sizes, Span<const int64_t> strides,
                      int64_t storage_offset, DType dtype) {
  PTERON_ASSIGN_OR_RETURN(const Extent extent, extent_of(sizes, strides));
  PTERON_CHECK_OR_RETURN(storage_offset >= 0, Error::InvalidArgument, "storage offset %lld",
                         static_cast<long long>(storage_offset));
  int64_t end = 0;
  size_t end_bytes = 0;
  const bool overflow =
      __builtin_add_overflow(storage_offset, extent.span, &end) ||
      __builtin_mul_overflow(static_cast<size_t>(end), element_size(dtype), &end_bytes);
  if (overflow || (extent.numel > 0 && end_bytes > storage->nbytes)) {
    std::string shape = name_of(dtype);
    append_list(&shape, sizes);
    shape += " with strides ";
    append_list(&shape, strides);
    return make_error(Error::InvalidArgument,
                      "%s at offset %lld reaches beyond its storage of %zu bytes", shape.c_str(),
                      static_cast<long long>(storage_offset), storage->nbytes);
  }
  assign(std::move(storage), sizes, strides, storage_offset, extent.numel, dtype);
  return Error::Ok;
}

void SlimTensor::assign(StorageRef storage, Span<const int64_t> sizes, Span<const int64_t> strides,
                        int64_t storage_offset, int64_t numel, DType dtype) {
  storage_ = std::move(storage);
  storage_offset_ = storage_offset;
  numel_ = numel;
  dtype_ = dtype;
  dim_ = static_cast<uint32_t>(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    sizes_[i] = sizes[i];
    strides_[i] = strides[i];
  }
}

std::string SlimTensor::describe() const {
  if (!is_defined()) return "undefined tensor";
  std::string text = name_of(dtype_);
  append_list(&text, sizes());
  if (!is_contiguous()) {
    text += " with strides ";
    append_list(&text, strides());
  }
  return text;
}

Result<size_t> storage_nbytes(Span<const int64_t> sizes, Span<const int64_t> strides, DType dtype) {
  PTERON_ASSIGN_OR_RETURN(const Extent extent, extent_of(sizes, strides));
  return bytes_of(extent, dtype);
}

Result<TensorPtr> make_tensor(Span<const int64_t> sizes, Span<const int64_t> strides, DType dtype,
                              Device device) {
  PTERON_ASSIGN_OR_RETURN(const Extent extent, extent_of(sizes, strides));
  PTERON_ASSIGN_OR_RETURN(const size_t nbytes, bytes_of(extent, dtype));
  PTERON_ASSIGN_OR_RETURN(StorageRef storage, allocate_storage(nbytes, device));
  TensorPtr tensor(new SlimTensor);
  tensor->assign(std::move(storage), sizes, strides, 0, extent.numel, dtype);
  return tensor;
}

Result<TensorPtr> make_tensor(Span<const int64_t> sizes, DType dtype) {
  int64_t strides[kMaxDims];
  PTERON_CHECK_OR_RETURN(sizes.size() <= kMaxDims, Error::InvalidArgument,
                         "%zu dimensions, at most %zu are possible", sizes.size(), kMaxDims);
  contiguous_strides(sizes, strides);
  return make_tensor(sizes, Span<const int64_t>(strides, sizes.size()), dtype, Device{});
}

Result<TensorPtr> make_tensor_from_blob(void* data, Span<const int64_t> sizes,
                                        Span<const int64_t> strides, int64_t storage_offset,
                                        DType dtype, Device device, size_t nbytes) {
  if (nbytes == 0) {
    PTERON_ASSIGN_OR_RETURN(nbytes, storage_nbytes(sizes, strides, dtype));
    size_t offset_bytes = 0;
    PTERON_CHECK_OR_RETURN(storage_offset >= 0 &&
                               !__builtin_mul_overflow(static_cast<size_t>(storage_offset),
                                                       element_size(dtype), &offset_bytes) &&
                               !__builtin_add_overflow(nbytes, offset_bytes, &nbytes),
                           Error::InvalidArgument, "storage offset %lld",
                           static_cast<long long>(storage_offset));
  }
  PTERON_ASSIGN_OR_RETURN(StorageRef storage, borrow_storage(data, nbytes, device));
  TensorPtr tensor(new SlimTensor);
  PTERON_RETURN_IF_ERROR(tensor->set(std::move(storage), sizes, strides, storage_offset, dtype));
  return tensor;
}

TensorPtr make_alias(const SlimTensor& tensor) { return TensorPtr(new SlimTensor(tensor)); }

void contiguous_strides(Span<const int64_t> sizes, int64_t* strides) {
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    // A size of 0 counts as 1, as in torch; unsigned, since an invalid size may overflow.
    stride = static_cast<int64_t>(static_cast<uint64_t>(stride) *
                                  static_cast<uint64_t>(sizes[i] > 0 ? sizes[i] : 1));
  }
}

}  // namespace pteron::slim
