#include "pteron/backends/aoti/ops/promotion.h"

#include <utility>

namespace pteron::aoti {
namespace {

using slim::DType;

// Real dtypes and the complex dtypes of two of them.
constexpr std::pair<DType, DType> kComplex[] = {{DType::Float, DType::ComplexFloat},
                                                {DType::Double, DType::ComplexDouble},
                                                {DType::Half, DType::ComplexHalf}};

// Bool, integer, floating-point, complex: the higher category wins.
int category(DType dtype) {
  if (slim::is_complex(dtype)) return 3;
  if (slim::is_floating_point(dtype)) return 2;
  return dtype == DType::Bool ? 0 : 1;
}

// Both of one category.
DType wider(DType a, DType b) {
  if (a == b) return a;
  const size_t x = slim::element_size(a), y = slim::element_size(b);
  if (x != y) return x > y ? a : b;
  // Two formats of one size: floating point promotes to float32, signed and unsigned integers to
  // the next larger signed one.
  if (category(a) == 2) return DType::Float;
  return x == 1 ? DType::Short : x == 2 ? DType::Int : DType::Long;
}

DType promoted(DType a, DType b) {
  if (category(a) < category(b)) std::swap(a, b);
  if (category(a) == category(b)) return wider(a, b);
  // A complex dtype must have at least the other's precision.
  if (category(a) == 3 && b == DType::Double) return DType::ComplexDouble;
  if (a == DType::ComplexHalf && category(b) == 2 && b != DType::Half) return DType::ComplexFloat;
  return a;
}

}  // namespace

DType complex_of(DType real) {
  for (const auto& [part, complex] : kComplex) {
    if (part == real) return complex;
  }
  return real;
}

DType real_of(DType complex) {
  for (const auto& [part, whole] : kComplex) {
    if (whole == complex) return part;
  }
  return complex;
}

DType result_type(const slim::SlimTensor& a, const slim::SlimTensor& b) {
  if ((a.dim() == 0) == (b.dim() == 0)) return promoted(a.dtype(), b.dtype());
  const slim::SlimTensor& strong = a.dim() == 0 ? b : a;
  const slim::SlimTensor& weak = a.dim() == 0 ? a : b;
  if (category(weak.dtype()) <= category(strong.dtype())) return strong.dtype();
  return promoted(strong.dtype(), weak.dtype());
}

}  // namespace pteron::aoti
