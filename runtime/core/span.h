// A borrowed array: pointer and length.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace pteron {

template <typename T>
class Span final {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}
  template <size_t N>
  constexpr Span(T (&array)[N]) : data_(array), size_(N) {}  // NOLINT(google-explicit-constructor)
  // From any contiguous container, which must outlive the span; from a temporary only as a
  // read-only argument.
  template <typename Container,
            typename = std::enable_if_t<
                std::is_convertible_v<decltype(std::declval<Container&>().data()), T*> &&
                (std::is_lvalue_reference_v<Container> || std::is_const_v<T>)>>
  constexpr Span(Container&& container)  // NOLINT(google-explicit-constructor)
      : data_(container.data()), size_(container.size()) {}

  constexpr T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T& operator[](size_t i) const { return data_[i]; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr operator Span<const T>() const { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace pteron
