// One element of any dtype as a number.
//
//   const double x = load_one<double>(tensor.dtype(), tensor.data_as<std::byte>());
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/scalar_type.h"

namespace pteron {

// `Number` is double or int64_t; the conversion is C's.
template <typename Number>
Number load_one(ScalarType dtype, const std::byte* data);

constexpr bool is_floating(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
    case ScalarType::Float:
    case ScalarType::Double:
    case ScalarType::BFloat16:
    case ScalarType::Float8_e5m2:
    case ScalarType::Float8_e4m3fn:
      return true;
    default:
      return false;
  }
}

}  // namespace pteron
