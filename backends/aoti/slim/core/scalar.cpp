#include "pteron/backends/aoti/slim/core/scalar.h"

#include <cmath>
#include <cstring>

#include "pteron/backends/aoti/slim/core/numeric.h"

namespace pteron::slim {
namespace {

template <typename T>
T load(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return value;
}

template <typename T>
void store(void* element, T value) {
  std::memcpy(element, &value, sizeof(T));
}

// A conversion that is undefined in C++ gives the lowest number, as the machine does.
int64_t int64_of(double value) {
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return INT64_MIN;
  return static_cast<int64_t>(value);
}

}  // namespace

Scalar Scalar::of(int64_t value) {
  Scalar scalar;
  scalar.signed_value = value;
  return scalar;
}

Scalar Scalar::of(uint64_t value) {
  Scalar scalar;
  scalar.kind = Kind::Unsigned;
  scalar.unsigned_value = value;
  return scalar;
}

Scalar Scalar::of(double value) { return of(std::complex<double>(value, 0)); }

Scalar Scalar::of(std::complex<double> value) {
  Scalar scalar;
  scalar.kind = Kind::Complex;
  scalar.complex_value = value;
  return scalar;
}

int64_t Scalar::to_int64() const {
  return kind == Kind::Complex ? int64_of(complex_value.real()) : signed_value;
}

uint64_t Scalar::to_uint64() const {
  if (kind != Kind::Complex) return unsigned_value;
  const double value = complex_value.real();
  if (value >= 9223372036854775808.0 && value < 18446744073709551616.0) {
    return static_cast<uint64_t>(value);
  }
  return static_cast<uint64_t>(int64_of(value));
}

double Scalar::to_double() const {
  switch (kind) {
    case Kind::Signed:
      return static_cast<double>(signed_value);
    case Kind::Unsigned:
      return static_cast<double>(unsigned_value);
    default:
      return complex_value.real();
  }
}

std::complex<double> Scalar::to_complex() const {
  return kind == Kind::Complex ? complex_value : std::complex<double>(to_double(), 0);
}

bool Scalar::to_bool() const {
  return kind == Kind::Complex ? complex_value != 0.0 : unsigned_value != 0;
}

Scalar load_scalar(DType dtype, const void* element) {
  switch (dtype) {
    case DType::Byte:
      return Scalar::of(uint64_t{load<uint8_t>(element)});
    case DType::Char:
      return Scalar::of(int64_t{load<int8_t>(element)});
    case DType::Short:
      return Scalar::of(int64_t{load<int16_t>(element)});
    case DType::Int:
      return Scalar::of(int64_t{load<int32_t>(element)});
    case DType::Long:
      return Scalar::of(load<int64_t>(element));
    case DType::UInt16:
      return Scalar::of(uint64_t{load<uint16_t>(element)});
    case DType::UInt32:
      return Scalar::of(uint64_t{load<uint32_t>(element)});
    case DType::UInt64:
      return Scalar::of(load<uint64_t>(element));
    case DType::Bool:
      return Scalar::of(uint64_t{load<uint8_t>(element) != 0});
    case DType::Half:
      return Scalar::of(double{load<Half>(element)});
    case DType::BFloat16:
      return Scalar::of(double{load<BFloat16>(element)});
    case DType::Float8_e5m2:
      return Scalar::of(double{load<Float8_e5m2>(element)});
    case DType::Float8_e4m3fn:
      return Scalar::of(double{load<Float8_e4m3fn>(element)});
    case DType::Float:
      return Scalar::of(double{load<float>(element)});
    case DType::Double:
      return Scalar::of(load<double>(element));
    case DType::ComplexHalf: {
      const auto value = load<ComplexHalf>(element);
      return Scalar::of(std::complex<double>(float{value.real}, float{value.imag}));
    }
    case DType::ComplexFloat:
      return Scalar::of(std::complex<double>(load<std::complex<float>>(element)));
    case DType::ComplexDouble:
      return Scalar::of(load<std::complex<double>>(element));
  }
  return Scalar();
}

void store_scalar(DType dtype, void* element, const Scalar& value) {
  switch (dtype) {
    case DType::Byte:
      return store(element, static_cast<uint8_t>(value.to_int64()));
    case DType::Char:
      return store(element, static_cast<int8_t>(value.to_int64()));
    case DType::Short:
      return store(element, static_cast<int16_t>(value.to_int64()));
    case DType::Int:
      return store(element, static_cast<int32_t>(value.to_int64()));
    case DType::Long:
      return store(element, value.to_int64());
    case DType::UInt16:
      return store(element, static_cast<uint16_t>(value.to_uint64()));
    case DType::UInt32:
      return store(element, static_cast<uint32_t>(value.to_uint64()));
    case DType::UInt64:
      return store(element, value.to_uint64());
    case DType::Bool:
      return store(element, static_cast<uint8_t>(value.to_bool()));
    case DType::Half:
      return store(element, Half(static_cast<float>(value.to_double())));
    case DType::BFloat16:
      return store(element, BFloat16(static_cast<float>(value.to_double())));
    case DType::Float8_e5m2:
      return store(element, Float8_e5m2(static_cast<float>(value.to_double())));
    case DType::Float8_e4m3fn:
      return store(element, Float8_e4m3fn(static_cast<float>(value.to_double())));
    case DType::Float:
      return store(element, static_cast<float>(value.to_double()));
    case DType::Double:
      return store(element, value.to_double());
    case DType::ComplexHalf: {
      const auto c = std::complex<float>(value.to_complex());
      return store(element, ComplexHalf{Half(c.real()), Half(c.imag())});
    }
    case DType::ComplexFloat:
      return store(element, std::complex<float>(value.to_complex()));
    case DType::ComplexDouble:
      return store(element, value.to_complex());
  }
}

}  // namespace pteron::slim
