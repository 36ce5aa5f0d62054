#include "pteron/runtime/kernel/convert.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace pteron {
namespace {

template <typename Stored>
Stored read(const std::byte* data) {
  Stored stored;
  std::memcpy(&stored, data, sizeof stored);
  return stored;
}

// A floating format with so many bits after the sign. Without infinities the largest exponent holds
// numbers too, and all ones is NaN.
double small_float(uint32_t bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int top = (1 << exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & top;
  const int one = 1 << mantissa_bits;
  const int mantissa = static_cast<int>(bits) & (one - 1);
  double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                               : std::ldexp(one + mantissa, exponent - bias - mantissa_bits);
  if (exponent == top && (has_infinity ? mantissa != 0 : mantissa == one - 1)) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == top && has_infinity) {
    value = std::numeric_limits<double>::infinity();
  }
  return bits >> (exponent_bits + mantissa_bits) ? -value : value;
}

}  // namespace

template <typename Number>
Number load_one(ScalarType dtype, const std::byte* data) {
  switch (dtype) {
    case ScalarType::Byte:
      return static_cast<Number>(read<uint8_t>(data));
    case ScalarType::Char:
      return static_cast<Number>(read<int8_t>(data));
    case ScalarType::Short:
      return static_cast<Number>(read<int16_t>(data));
    case ScalarType::Int:
      return static_cast<Number>(read<int32_t>(data));
    case ScalarType::Long:
      return static_cast<Number>(read<int64_t>(data));
    case ScalarType::UInt16:
      return static_cast<Number>(read<uint16_t>(data));
    case ScalarType::UInt32:
      return static_cast<Number>(read<uint32_t>(data));
    case ScalarType::UInt64:
      return static_cast<Number>(read<uint64_t>(data));
    case ScalarType::Bool:  // any byte that is not zero
      return *data != std::byte{0};
    case ScalarType::Double:
      return static_cast<Number>(read<double>(data));
    case ScalarType::Half:
      return static_cast<Number>(small_float(read<uint16_t>(data), 5, 10, true));
    case ScalarType::BFloat16:
      return static_cast<Number>(small_float(read<uint16_t>(data), 8, 7, true));
    case ScalarType::Float8_e5m2:
      return static_cast<Number>(small_float(read<uint8_t>(data), 5, 2, true));
    case ScalarType::Float8_e4m3fn:
      return static_cast<Number>(small_float(read<uint8_t>(data), 4, 3, false));
    case ScalarType::Float:
      break;
  }
  return static_cast<Number>(read<float>(data));
}

template double load_one(ScalarType, const std::byte*);
template int64_t load_one(ScalarType, const std::byte*);

}  // namespace pteron
