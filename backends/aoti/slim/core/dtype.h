// The dtypes that compiled models use internally: those of the program format
// (runtime/core/scalar_types.inc) and complex32, which never crosses a partition boundary.
//
//   DType dtype;
//   if (!to_dtype(number, &dtype)) ...;          // a number from the C ABI
//   nbytes = numel * element_size(dtype);
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/scalar_type.h"

namespace pteron::slim {

// The values are those of the AOTI C ABI and of ScalarType.
enum class DType : int32_t {
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) name = number,
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
  ComplexHalf = 8,
};

// Bytes per element; 0 for a value outside the enum.
constexpr size_t element_size(DType dtype) {
  switch (dtype) {
    case DType::ComplexHalf:
      return 4;
    default:
      return pteron::element_size(static_cast<ScalarType>(dtype));
  }
}

// "float32"; "unknown" for a value outside the enum.
constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::ComplexHalf:
      return "complex32";
    default:
      return pteron::name_of(static_cast<ScalarType>(dtype));
  }
}

constexpr DType to_dtype(ScalarType dtype) { return static_cast<DType>(dtype); }

// False for a value that is no dtype; `dtype` is then unchanged.
constexpr bool to_dtype(int32_t number, DType* dtype) {
  // ScalarType is 8 bits wide: a larger value must not wrap.
  if (number < 0 || number > 127 || element_size(static_cast<DType>(number)) == 0) return false;
  *dtype = static_cast<DType>(number);
  return true;
}

constexpr bool is_complex(DType dtype) {
  return dtype == DType::ComplexHalf || dtype == DType::ComplexFloat ||
         dtype == DType::ComplexDouble;
}

constexpr bool is_floating_point(DType dtype) {
  return is_floating(static_cast<ScalarType>(dtype));
}

}  // namespace pteron::slim
