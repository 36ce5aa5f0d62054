#include "pteron/runtime/kernel/convert.h"

#include <cstring>
#include <type_traits>

#include "pteron/runtime/kernel/small_float.h"

namespace pteron {
namespace {

template <typename Stored>
constexpr bool is_small_float = !std::is_arithmetic_v<Stored>;

template <typename Number, typename Stored>
Number number_of(Stored stored) {
  if constexpr (is_small_float<Stored>) {
    return static_cast<Number>(Stored::to_float(stored.bits));
  } else {
    return static_cast<Number>(stored);
  }
}

// Out of range, a conversion to an integer is undefined in C; what x86 does with 64 bits is what
// torch shows, so that is what every machine does here.
template <typename Stored, typename Number>
Stored stored_of(Number number) {
  if constexpr (is_small_float<Stored>) {
    return Stored{Stored::from_float(static_cast<float>(number))};
  } else if constexpr (std::is_same_v<Stored, bool>) {
    return number != Number{0};
  } else if constexpr (std::is_floating_point_v<Number> && std::is_integral_v<Stored>) {
    constexpr Number kTwo63 = static_cast<Number>(9223372036854775808.0);
    if constexpr (std::is_same_v<Stored, uint64_t>) {
      if (number >= kTwo63 && number < 2 * kTwo63) return static_cast<uint64_t>(number);
    }
    const bool fits = number >= -kTwo63 && number < kTwo63;
    return static_cast<Stored>(fits ? static_cast<int64_t>(number) : INT64_MIN);
  } else {
    return static_cast<Stored>(number);
  }
}

template <typename Stored>
Stored read(const std::byte* data) {
  Stored stored;
  std::memcpy(&stored, data, sizeof stored);
  return stored;
}

// A bool is any byte that is not zero.
template <>
bool read<bool>(const std::byte* data) {
  return *data != std::byte{0};
}

template <typename Stored, typename Number>
const Number* load_as(const std::byte* data, int64_t step, int64_t count, Number* buffer) {
  constexpr int64_t kSize = sizeof(Stored);
  if constexpr (std::is_same_v<Stored, Number>) {
    if (step == kSize || count == 1) return reinterpret_cast<const Number*>(data);
  }
  if (step == kSize) {  // a loop of its own, which the compiler can vectorise
    for (int64_t i = 0; i < count; ++i) {
      buffer[i] = number_of<Number>(read<Stored>(data + i * kSize));
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      buffer[i] = number_of<Number>(read<Stored>(data + i * step));
    }
  }
  return buffer;
}

template <typename Stored, typename Number>
void store_as(std::byte* data, int64_t step, int64_t count, const Number* numbers) {
  constexpr int64_t kSize = sizeof(Stored);
  if (step == kSize) {
    for (int64_t i = 0; i < count; ++i) {
      const Stored stored = stored_of<Stored>(numbers[i]);
      std::memcpy(data + i * kSize, &stored, kSize);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const Stored stored = stored_of<Stored>(numbers[i]);
      std::memcpy(data + i * step, &stored, kSize);
    }
  }
}

// f(Stored{}) with the C++ type that an element is kept as.
template <typename F>
auto dispatch_stored(ScalarType dtype, F&& f) {
  switch (dtype) {
    case ScalarType::Byte:
      return f(uint8_t{});
    case ScalarType::Char:
      return f(int8_t{});
    case ScalarType::Short:
      return f(int16_t{});
    case ScalarType::Int:
      return f(int32_t{});
    case ScalarType::Long:
      return f(int64_t{});
    case ScalarType::Half:
      return f(HalfBits{});
    case ScalarType::Double:
      return f(double{});
    case ScalarType::Bool:
      return f(bool{});
    case ScalarType::BFloat16:
      return f(BFloat16Bits{});
    case ScalarType::Float8_e5m2:
      return f(Float8E5M2Bits{});
    case ScalarType::Float8_e4m3fn:
      return f(Float8E4M3FnBits{});
    case ScalarType::UInt16:
      return f(uint16_t{});
    case ScalarType::UInt32:
      return f(uint32_t{});
    case ScalarType::UInt64:
      return f(uint64_t{});
    case ScalarType::Float:
      break;
  }
  return f(float{});
}

}  // namespace

template <typename Number>
const Number* load_block(ScalarType dtype, const std::byte* data, int64_t step, int64_t count,
                         Number* buffer) {
  return dispatch_stored(
      dtype, [&](auto stored) { return load_as<decltype(stored)>(data, step, count, buffer); });
}

template <typename Number>
void store_block(ScalarType dtype, std::byte* data, int64_t step, int64_t count,
                 const Number* numbers) {
  dispatch_stored(dtype,
                  [&](auto stored) { store_as<decltype(stored)>(data, step, count, numbers); });
}

#define PTERON_INSTANTIATE(Number)                                                            \
  template const Number* load_block(ScalarType, const std::byte*, int64_t, int64_t, Number*); \
  template void store_block(ScalarType, std::byte*, int64_t, int64_t, const Number*)
PTERON_INSTANTIATE(float);
PTERON_INSTANTIATE(double);
PTERON_INSTANTIATE(int64_t);
PTERON_INSTANTIATE(uint64_t);
#undef PTERON_INSTANTIATE

}  // namespace pteron
