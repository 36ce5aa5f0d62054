// The C++ types of dtypes, and dispatch over dtypes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "pteron/backends/aoti/slim/core/dtype.h"
#include "pteron/runtime/core/small_float.h"

namespace pteron::slim {

using pteron::BFloat16;
using pteron::Half;

struct ComplexHalf {
  Half real, imag;
};

// The accumulation type of T.
template <typename T>
using accumulate_t =
    std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
                           std::is_same_v<T, Float8_e5m2> || std::is_same_v<T, Float8_e4m3fn>,
                       float, T>;

template <typename T>
inline constexpr bool is_small_float_v = !std::is_same_v<accumulate_t<T>, T>;

}  // namespace pteron::slim

// PTERON_DISPATCH_REAL(dtype, T, statement): runs `statement` with T the C++ type of a real dtype
// (bool included); does nothing for complex ones and float8.
#define PTERON_DISPATCH_CASE_(dtype_name, cpp_type, T, ...) \
  case ::pteron::slim::DType::dtype_name: {                 \
    using T = cpp_type;                                     \
    __VA_ARGS__;                                            \
    break;                                                  \
  }

#define PTERON_DISPATCH_REAL(dtype, T, ...)                             \
  switch (dtype) {                                                      \
    PTERON_DISPATCH_CASE_(Byte, uint8_t, T, __VA_ARGS__)                \
    PTERON_DISPATCH_CASE_(Char, int8_t, T, __VA_ARGS__)                 \
    PTERON_DISPATCH_CASE_(Short, int16_t, T, __VA_ARGS__)               \
    PTERON_DISPATCH_CASE_(Int, int32_t, T, __VA_ARGS__)                 \
    PTERON_DISPATCH_CASE_(Long, int64_t, T, __VA_ARGS__)                \
    PTERON_DISPATCH_CASE_(UInt16, uint16_t, T, __VA_ARGS__)             \
    PTERON_DISPATCH_CASE_(UInt32, uint32_t, T, __VA_ARGS__)             \
    PTERON_DISPATCH_CASE_(UInt64, uint64_t, T, __VA_ARGS__)             \
    PTERON_DISPATCH_CASE_(Half, ::pteron::Half, T, __VA_ARGS__)         \
    PTERON_DISPATCH_CASE_(BFloat16, ::pteron::BFloat16, T, __VA_ARGS__) \
    PTERON_DISPATCH_CASE_(Float, float, T, __VA_ARGS__)                 \
    PTERON_DISPATCH_CASE_(Double, double, T, __VA_ARGS__)               \
    PTERON_DISPATCH_CASE_(Bool, bool, T, __VA_ARGS__)                   \
    default:                                                            \
      break;                                                            \
  }

// The same for floating-point dtypes of 16 bits and more.
#define PTERON_DISPATCH_FLOATING(dtype, T, ...)                         \
  switch (dtype) {                                                      \
    PTERON_DISPATCH_CASE_(Half, ::pteron::Half, T, __VA_ARGS__)         \
    PTERON_DISPATCH_CASE_(BFloat16, ::pteron::BFloat16, T, __VA_ARGS__) \
    PTERON_DISPATCH_CASE_(Float, float, T, __VA_ARGS__)                 \
    PTERON_DISPATCH_CASE_(Double, double, T, __VA_ARGS__)               \
    default:                                                            \
      break;                                                            \
  }
