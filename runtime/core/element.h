// Reads one element of any dtype as a scalar.
//
//   const double x = load_one<double>(tensor.dtype(), tensor.data());
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "pteron/runtime/core/scalar_type.h"
#include "pteron/runtime/core/small_float.h"

namespace pteron {

template <typename T>
inline constexpr bool is_complex_number =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Calls visitor(T()), where T is the C++ type of the elements. Bool elements are visited as bytes:
// any non-zero byte is true, but is not a valid C++ bool.
template <typename Visitor>
auto visit_element_type(ScalarType dtype, Visitor&& visitor) {
  switch (dtype) {
    case ScalarType::Byte:
      return visitor(uint8_t());
    case ScalarType::Char:
      return visitor(int8_t());
    case ScalarType::Short:
      return visitor(int16_t());
    case ScalarType::Int:
      return visitor(int32_t());
    case ScalarType::Long:
      return visitor(int64_t());
    case ScalarType::UInt16:
      return visitor(uint16_t());
    case ScalarType::UInt32:
      return visitor(uint32_t());
    case ScalarType::UInt64:
      return visitor(uint64_t());
    case ScalarType::Bool:
      return visitor(bool());
    case ScalarType::Half:
      return visitor(Half());
    case ScalarType::BFloat16:
      return visitor(BFloat16());
    case ScalarType::Float8_e5m2:
      return visitor(Float8_e5m2());
    case ScalarType::Float8_e4m3fn:
      return visitor(Float8_e4m3fn());
    case ScalarType::Double:
      return visitor(double());
    case ScalarType::ComplexFloat:
      return visitor(std::complex<float>());
    case ScalarType::ComplexDouble:
      return visitor(std::complex<double>());
    case ScalarType::Float:
      break;
  }
  return visitor(float());
}

// Of any alignment.
template <typename T>
T load_element(const void* data) {
  if constexpr (std::is_same_v<T, bool>) {
    return *static_cast<const unsigned char*>(data) != 0;
  } else {
    T value;
    std::memcpy(&value, data, sizeof value);
    return value;
  }
}

// `Number` is double or int64_t; the conversion is C's. Of a complex number, its real part.
template <typename Number>
Number load_one(ScalarType dtype, const void* data) {
  return visit_element_type(dtype, [data](auto type) {
    const auto element = load_element<decltype(type)>(data);
    if constexpr (is_complex_number<decltype(type)>) {
      return static_cast<Number>(element.real());
    } else {
      return static_cast<Number>(element);
    }
  });
}

}  // namespace pteron
