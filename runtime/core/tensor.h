// A dense tensor over borrowed memory.
//
//   int64_t sizes[] = {2, 3};
//   float data[6];
//   Result<Tensor> tensor = Tensor::make(ScalarType::Float, sizes, data);   // contiguous
//   int64_t fewer[] = {1, 3};
//   Error error = tensor->resize(fewer);   // within the bytes behind the pointer
//
// Sizes and strides are in elements and stored inline, so that creating, copying and resizing a
// tensor allocates nothing. The data pointer is borrowed: its owner must outlive every use. Layout
// is a dim order (outermost dimension first), as in the program format; strides follow from it. Not
// thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/scalar_type.h"
#include "pteron/runtime/core/span.h"

namespace pteron {

inline constexpr size_t kMaxTensorDims = 16;

enum class ShapeDynamism : int8_t { Static = 0, DynamicBound = 1, DynamicUnbound = 2 };

class Tensor final {
 public:
  // A contiguous tensor. `data` holds all its elements, or is null and set later. InvalidArgument: more than
  // kMaxTensorDims dimensions, a negative size, a byte count that overflows; InvalidType: dtype.
  static Result<Tensor> make(ScalarType dtype, Span<const int64_t> sizes, void* data,
                             Device device = {});
  // As above in the given dim order, which must be a permutation of 0..dim-1.
  static Result<Tensor> make(ScalarType dtype, Span<const int64_t> sizes,
                             Span<const uint8_t> dim_order, void* data, Device device = {},
                             ShapeDynamism dynamism = ShapeDynamism::Static);

  // Copies the handle, not the data; copies only the used sizes.
  Tensor(const Tensor& other) noexcept { copy_from(other); }
  Tensor& operator=(const Tensor& other) noexcept {
    copy_from(other);
    return *this;
  }

  ScalarType dtype() const { return dtype_; }
  size_t dim() const { return dim_; }
  int64_t size(size_t i) const { return sizes_[i]; }
  Span<const int64_t> sizes() const { return {sizes_.data(), dim_}; }
  Span<const int64_t> strides() const { return {strides_.data(), dim_}; }
  Span<const uint8_t> dim_order() const { return {dim_order_.data(), dim_}; }
  int64_t numel() const { return numel_; }
  size_t nbytes() const { return static_cast<size_t>(numel_) * element_size(dtype_); }
  // Bytes of the upper bound of its shape.
  size_t max_nbytes() const;
  // Bytes behind data(), at least nbytes(); zero without data.
  size_t capacity_nbytes() const { return capacity_nbytes_; }
  // The upper bound of each size; equal to sizes() for a static tensor.
  Span<const int64_t> max_sizes() const { return {max_sizes_.data(), dim_}; }
  Device device() const { return device_; }
  ShapeDynamism dynamism() const { return dynamism_; }

  void* data() const { return data_; }
  template <typename T>
  T* data_as() const {
    return static_cast<T*>(data_);
  }
  // `data` is borrowed memory on device() of `nbytes` bytes, at least nbytes() unless it is null.
  void set_data(void* data, size_t nbytes) {
    data_ = data;
    capacity_nbytes_ = data ? nbytes : 0;
    is_constant_ = false;
  }
  // The same for read-only memory, such as a mapped file: writers must reject this tensor.
  void set_constant_data(const void* data, size_t nbytes) {
    set_data(const_cast<void*>(data), nbytes);
    is_constant_ = true;
  }
  bool is_constant() const { return is_constant_; }

  // New sizes of the same rank, strides by the same dim order. InvalidArgument for another rank, a
  // size above max_sizes(), any change of a static tensor, or insufficient memory; the tensor is
  // then unchanged.
  Error resize(Span<const int64_t> sizes);
  // The same, with the memory of `other` and its read-only flag.
  Error share_data(const Tensor& other, Span<const int64_t> sizes);

  // "float32[2, 3]", for messages.
  std::string describe() const;

 private:
  Tensor() = default;

  bool has_sizes(Span<const int64_t> sizes) const;
  Error check_resize(Span<const int64_t> sizes, size_t capacity_nbytes) const;
  void set_sizes(Span<const int64_t> sizes);

  void copy_from(const Tensor& other) noexcept {
    data_ = other.data_;
    numel_ = other.numel_;
    capacity_nbytes_ = other.capacity_nbytes_;
    dim_ = other.dim_;
    dtype_ = other.dtype_;
    dynamism_ = other.dynamism_;
    device_ = other.device_;
    is_constant_ = other.is_constant_;
    for (size_t i = 0; i < dim_; ++i) {
      dim_order_[i] = other.dim_order_[i];
      sizes_[i] = other.sizes_[i];
      strides_[i] = other.strides_[i];
      max_sizes_[i] = other.max_sizes_[i];
    }
  }

  void* data_ = nullptr;
  int64_t numel_ = 0;
  size_t capacity_nbytes_ = 0;
  size_t dim_ = 0;
  ScalarType dtype_ = ScalarType::Float;
  ShapeDynamism dynamism_ = ShapeDynamism::Static;
  Device device_;
  bool is_constant_ = false;
  // Only the first dim_ entries of each are set.
  std::array<uint8_t, kMaxTensorDims> dim_order_;
  std::array<int64_t, kMaxTensorDims> sizes_;
  std::array<int64_t, kMaxTensorDims> strides_;
  std::array<int64_t, kMaxTensorDims> max_sizes_;
};

}  // namespace pteron
