// Tensors that own their elements: created from vectors and converted to vectors.
//
//   PTERON_ASSIGN_OR_RETURN(TensorPtr x, make_tensor_ptr({2, 3}, std::vector<float>(6, 0.5f)));
//   PTERON_ASSIGN_OR_RETURN(TensorPtr ids, make_tensor_ptr(std::vector<int64_t>{1, 2, 3}));  // [3]
//   PTERON_ASSIGN_OR_RETURN(std::vector<float> elements, to_vector<float>(*x));
//
// Elements are on the host, in row-major order. Element types are C++ integers, float, double and
// those of small_float.h. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "pteron/runtime/core/element.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/tensor.h"

namespace pteron {

using TensorPtr = std::shared_ptr<Tensor>;

// The dtype of C++ type T: ScalarType::Float for float.
template <typename T>
ScalarType scalar_type_of() {
  static_assert(!std::is_same_v<T, bool>,
                "std::vector<bool> packs its elements: use uint8_t and ScalarType::Bool");
  static_assert(std::is_trivially_copyable_v<T>, "elements of tensors are numbers");
  const auto is_it = [](auto element) {
    using E = decltype(element);
    constexpr bool integers = std::is_integral_v<E> && std::is_integral_v<T> &&
                              !std::is_same_v<E, bool> &&
                              std::is_signed_v<E> == std::is_signed_v<T>;
    return std::is_same_v<E, T> || (integers && sizeof(E) == sizeof(T));
  };
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  if (visit_element_type(ScalarType::name, is_it)) return ScalarType::name;
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
  return static_cast<ScalarType>(-1);  // rejected by Tensor::make()
}

namespace tensor_ptr_internal {

// `owner` owns `data`, which has `count` elements of `item_size` bytes.
Result<TensorPtr> make(ScalarType dtype, const std::vector<int64_t>& sizes, void* data,
                       size_t count, size_t item_size, std::shared_ptr<void> owner);
Error copy_elements(const Tensor& tensor, ScalarType dtype, size_t item_size, void* target);

}  // namespace tensor_ptr_internal

// A contiguous tensor that owns `elements`. `dtype` is needed where T does not determine it
// (uint8_t for Bool, uint16_t for BFloat16). InvalidArgument: the number of elements does not match
// `sizes`; InvalidType: no dtype for T, or an element size different from `dtype`'s.
template <typename T>
Result<TensorPtr> make_tensor_ptr(const std::vector<int64_t>& sizes, std::vector<T> elements,
                                  ScalarType dtype = scalar_type_of<T>()) {
  auto owner = std::make_shared<std::vector<T>>(std::move(elements));
  return tensor_ptr_internal::make(dtype, sizes, owner->data(), owner->size(), sizeof(T), owner);
}

// A 1-d tensor.
template <typename T>
Result<TensorPtr> make_tensor_ptr(std::vector<T> elements) {
  const auto size = static_cast<int64_t>(elements.size());
  return make_tensor_ptr({size}, std::move(elements));
}

// Copies the elements, in row-major order for any dim order. InvalidType: another element type
// (Bool elements are uint8_t); InvalidArgument: not on the host.
template <typename T>
Result<std::vector<T>> to_vector(const Tensor& tensor) {
  std::vector<T> elements(static_cast<size_t>(tensor.numel()));
  PTERON_RETURN_IF_ERROR(
      tensor_ptr_internal::copy_elements(tensor, scalar_type_of<T>(), sizeof(T), elements.data()));
  return elements;
}

}  // namespace pteron
