// Elements of any dtype as numbers to compute with, a block at a time.
//
//   float buffer[kBlock];
//   const float* x = load_block(dtype, data, step_nbytes, count, buffer);
//   ...
//   store_block(dtype, data, step_nbytes, count, results);
//
// `Number` is float, double, int64_t or uint64_t. Conversion is C's: towards zero to an integer, to
// the nearest even to a floating type, "is not zero" to bool.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/scalar_type.h"

namespace pteron {

inline constexpr int64_t kBlock = 256;  // elements

// `count` <= kBlock elements from `data`, `step` bytes apart. Returns `buffer`, or `data` itself
// when it can be used as it is.
template <typename Number>
const Number* load_block(ScalarType dtype, const std::byte* data, int64_t step, int64_t count,
                         Number* buffer);

template <typename Number>
void store_block(ScalarType dtype, std::byte* data, int64_t step, int64_t count,
                 const Number* numbers);

template <typename Number>
Number load_one(ScalarType dtype, const std::byte* data) {
  Number number;
  return *load_block(dtype, data, 0, 1, &number);
}

template <typename Number>
void store_one(ScalarType dtype, std::byte* data, Number number) {
  store_block(dtype, data, 0, 1, &number);
}

// Also of numbers that can't be one.
template <typename Number>
constexpr bool is_nan(Number number) {
  return number != number;
}

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

// Calls f(Number{}) with the type that holds every value of `dtype`: float for floating types up to
// 32 bits, double, uint64_t, or int64_t for bool and other integers.
template <typename F>
auto dispatch_number(ScalarType dtype, F&& f) {
  if (dtype == ScalarType::Double) return f(double{});
  if (dtype == ScalarType::UInt64) return f(uint64_t{});
  if (is_floating(dtype)) return f(float{});
  return f(int64_t{});
}

}  // namespace pteron
