#include "pteron/backends/aoti/slim/core/scalar.h"

#include <cstring>
#include <type_traits>

#include "pteron/backends/aoti/slim/core/numeric.h"
#include "pteron/runtime/core/element.h"

namespace pteron::slim {
namespace {

template <typename T>
void store(void* element, T value) {
  std::memcpy(element, &value, sizeof(T));
}

// A conversion that is undefined in C++ returns the minimum, as x86 does.
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
    case DType::ComplexHalf: {
      const auto value = load_element<ComplexHalf>(element);
      return Scalar::of(std::complex<double>(float{value.real}, float{value.imag}));
    }
    default:
      return visit_element_type(static_cast<ScalarType>(dtype), [element](auto type) {
        using T = decltype(type);
        const T value = load_element<T>(element);
        if constexpr (is_complex_number<T>) {
          return Scalar::of(std::complex<double>(value));
        } else if constexpr (!std::is_integral_v<T>) {
          return Scalar::of(double{value});
        } else if constexpr (std::is_signed_v<T>) {
          return Scalar::of(int64_t{value});
        } else {
          return Scalar::of(uint64_t{value});
        }
      });
  }
}

void store_scalar(DType dtype, void* element, const Scalar& value) {
  switch (dtype) {
    case DType::ComplexHalf: {
      const auto c = std::complex<float>(value.to_complex());
      return store(element, ComplexHalf{Half(c.real()), Half(c.imag())});
    }
    default:
      return visit_element_type(static_cast<ScalarType>(dtype), [element, &value](auto type) {
        using T = decltype(type);
        if constexpr (is_complex_number<T>) {
          store(element, T(value.to_complex()));
        } else if constexpr (std::is_same_v<T, bool>) {
          store(element, value.to_bool());
        } else if constexpr (std::is_same_v<T, uint64_t>) {
          store(element, value.to_uint64());
        } else if constexpr (std::is_integral_v<T>) {
          store(element, static_cast<T>(value.to_int64()));
        } else if constexpr (std::is_same_v<T, double>) {
          store(element, value.to_double());
        } else {
          store(element, T(static_cast<float>(value.to_double())));
        }
      });
  }
}

}  // namespace pteron::slim
