// A scalar of any dtype.
//
//   Scalar value = load_scalar(tensor.dtype(), tensor.data());
//   store_scalar(DType::Half, pointer, value);
#pragma once

#include <complex>
#include <cstdint>

#include "pteron/backends/aoti/slim/core/dtype.h"

namespace pteron::slim {

// Holds an element of any dtype losslessly: a signed or unsigned integer, a real or a complex
// value.
struct Scalar {
  enum class Kind : uint8_t { Signed, Unsigned, Complex };
  Kind kind = Kind::Signed;
  union {
    int64_t signed_value = 0;
    uint64_t unsigned_value;
  };
  std::complex<double> complex_value;  // only for Kind::Complex

  static Scalar of(int64_t value);
  static Scalar of(uint64_t value);
  static Scalar of(double value);
  static Scalar of(std::complex<double> value);

  // Converts as C++ does: real to integer by truncation, complex by its real part.
  int64_t to_int64() const;
  uint64_t to_uint64() const;
  double to_double() const;
  std::complex<double> to_complex() const;
  bool to_bool() const;
};

Scalar load_scalar(DType dtype, const void* element);
void store_scalar(DType dtype, void* element, const Scalar& value);

}  // namespace pteron::slim
