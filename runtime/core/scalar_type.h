// The dtypes, from the table in scalar_types.inc.
//
//   if (!is_valid(dtype)) ...;
//   size_t nbytes = numel * element_size(ScalarType::Float);   // 4 bytes each
#pragma once

#include <cstddef>
#include <cstdint>

namespace pteron {

enum class ScalarType : int8_t {
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) name = number,
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
};

constexpr bool is_valid(ScalarType dtype) {
  switch (static_cast<int>(dtype)) {
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) case number:
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
    return true;
    default:
      return false;
  }
}

// Bytes per element; 0 for a value outside the table.
constexpr size_t element_size(ScalarType dtype) {
  switch (static_cast<int>(dtype)) {
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  case number:                                                                        \
    return bytes;
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
    default:
      return 0;
  }
}

// "float32"; "unknown" for a value outside the table.
constexpr const char* name_of(ScalarType dtype) {
  switch (static_cast<int>(dtype)) {
#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  case number:                                                                        \
    return #torch_name;
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
    default:
      return "unknown";
  }
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

constexpr bool is_complex(ScalarType dtype) {
  return dtype == ScalarType::ComplexFloat || dtype == ScalarType::ComplexDouble;
}

}  // namespace pteron
