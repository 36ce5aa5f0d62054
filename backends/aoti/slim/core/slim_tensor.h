// The tensor type behind the handles of compiled models.
//
//   int64_t sizes[] = {2, 3}, strides[] = {3, 1};
//   PTERON_ASSIGN_OR_RETURN(TensorPtr t, make_tensor(sizes, strides, DType::Float, Device{}));
//   float* data = t->data_as<float>();
//   SlimTensor* handle = t.release();         // what the C ABI calls an AtenTensorHandle
//   TensorPtr owner(handle);                  // deletes it
//
// Sizes and strides (in elements, never negative) are stored inline. Objects and CPU memory come
// from per-thread caches, so that in a steady state nothing is allocated from the OS. A tensor is
// used by one thread at a time; any thread may delete it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "pteron/backends/aoti/slim/core/dtype.h"
#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/core/tensor.h"

namespace pteron::slim {

inline constexpr size_t kMaxDims = kMaxTensorDims;

class SlimTensor final {
 public:
  // Undefined: no storage, one dimension of size 0. Only the used entries of sizes and strides are
  // initialized, since a model creates tensors in every call.
  SlimTensor() {
    sizes_[0] = 0;
    strides_[0] = 1;
  }
  SlimTensor(const SlimTensor& other) { *this = other; }
  SlimTensor& operator=(const SlimTensor& other);

  // Allocated from the calling thread's pool; new may throw std::bad_alloc.
  static void* operator new(size_t size);
  static void operator delete(void* tensor) noexcept;

  bool is_defined() const { return static_cast<bool>(storage_); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device : Device{}; }
  size_t dim() const { return dim_; }
  int64_t size(size_t i) const { return sizes_[i]; }
  int64_t stride(size_t i) const { return strides_[i]; }
  Span<const int64_t> sizes() const { return {sizes_, dim_}; }
  Span<const int64_t> strides() const { return {strides_, dim_}; }
  int64_t* mutable_sizes() { return sizes_; }  // for the C ABI, which returns int64_t*
  int64_t* mutable_strides() { return strides_; }
  int64_t numel() const { return numel_; }
  size_t item_size() const { return element_size(dtype_); }
  size_t nbytes() const { return static_cast<size_t>(numel_) * item_size(); }
  // In elements, from the start of the storage.
  int64_t storage_offset() const { return storage_offset_; }
  const StorageRef& storage() const { return storage_; }
  // Address of the first element; null when undefined.
  void* data() const {
    return storage_ ? static_cast<char*>(storage_->data) +
                          static_cast<size_t>(storage_offset_) * item_size()
                    : nullptr;
  }
  template <typename T>
  T* data_as() const {
    return static_cast<T*>(data());
  }
  // Row-major and dense. Dimensions of size 1 may have any stride.
  bool is_contiguous() const;

  // Makes this tensor a view of `storage`. InvalidArgument: more than kMaxDims dimensions, a
  // negative size, stride or offset, or an element outside the storage; the tensor is then
  // unchanged.
  Error set(StorageRef storage, Span<const int64_t> sizes, Span<const int64_t> strides,
            int64_t storage_offset, DType dtype);

  // "float32[2, 3]", with the strides after it when they are not contiguous. For messages.
  std::string describe() const;

 private:
  friend Result<std::unique_ptr<SlimTensor>> make_tensor(Span<const int64_t> sizes,
                                                         Span<const int64_t> strides, DType dtype,
                                                         Device device);
  // `set` without checks.
  void assign(StorageRef storage, Span<const int64_t> sizes, Span<const int64_t> strides,
              int64_t storage_offset, int64_t numel, DType dtype);

  StorageRef storage_;
  int64_t storage_offset_ = 0;
  int64_t numel_ = 0;
  DType dtype_ = DType::Float;
  uint32_t dim_ = 1;
  int64_t sizes_[kMaxDims];
  int64_t strides_[kMaxDims];
};

// Owns one tensor; release() makes it a handle.
using TensorPtr = std::unique_ptr<SlimTensor>;

// Bytes from the first to one past the last element. InvalidArgument: an overflow, a negative size
// or stride, sizes and strides of different length or longer than kMaxDims.
Result<size_t> storage_nbytes(Span<const int64_t> sizes, Span<const int64_t> strides, DType dtype);

// Uninitialized, with its own memory.
Result<TensorPtr> make_tensor(Span<const int64_t> sizes, Span<const int64_t> strides, DType dtype,
                              Device device);
// The same, row-major, on the CPU.
Result<TensorPtr> make_tensor(Span<const int64_t> sizes, DType dtype);

// Over `data`, which is borrowed and must outlive every tensor that shares its storage. `nbytes` is
// the size of that memory; 0 means exactly the extent of the elements.
Result<TensorPtr> make_tensor_from_blob(void* data, Span<const int64_t> sizes,
                                        Span<const int64_t> strides, int64_t storage_offset,
                                        DType dtype, Device device, size_t nbytes = 0);

// Another tensor over the same storage.
TensorPtr make_alias(const SlimTensor& tensor);

// Row-major strides of `sizes`; `strides` has as many entries.
void contiguous_strides(Span<const int64_t> sizes, int64_t* strides);

}  // namespace pteron::slim
