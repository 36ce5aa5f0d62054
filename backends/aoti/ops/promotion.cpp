#include "pteron/backends/aoti/ops/promotion.h"

#include <algorithm>
#include <utility>

namespace pteron::aoti {
namespace {

using slim::DType;

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
  // Two formats of one size: floats meet in float32, a signed and an unsigned integer in the next
  // larger signed one.
  if (category(a) == 2) return DType::Float;
  return x == 1 ? DType::Short : x == 2 ? DType::Int : DType::Long;
}

DType promoted(DType a, DType b) {
  if (category(a) < category(b)) std::swap(a, b);
  if (category(a) == category(b)) return wider(a, b);
  // A complex type has to hold the other's precision.
  if (category(a) == 3 && b == DType::Double) return DType::ComplexDouble;
  if (a == DType::ComplexHalf && category(b) == 2 && b != DType::Half) return DType::ComplexFloat;
  return a;
}

}  // namespace

Result<Broadcast> broadcast(const slim::SlimTensor& a, const slim::SlimTensor& b) {
  Broadcast result;
  result.dim = std::max(a.dim(), b.dim());
  for (size_t i = 0; i < result.dim; ++i) {
    // Counted from the back.
    const size_t at = result.dim - 1 - i;
    const int64_t x = i < a.dim() ? a.size(a.dim() - 1 - i) : 1;
    const int64_t y = i < b.dim() ? b.size(b.dim() - 1 - i) : 1;
    PTERON_CHECK_OR_RETURN(x == y || x == 1 || y == 1, Error::InvalidArgument,
                           "found %s and %s, expected sizes that broadcast", a.describe().c_str(),
                           b.describe().c_str());
    result.sizes[at] = x == 1 ? y : x;
    result.a[at] = x == 1 ? 0 : a.stride(a.dim() - 1 - i);
    result.b[at] = y == 1 ? 0 : b.stride(b.dim() - 1 - i);
  }
  return result;
}

DType complex_of(DType real) {
  switch (real) {
    case DType::Float:
      return DType::ComplexFloat;
    case DType::Double:
      return DType::ComplexDouble;
    case DType::Half:
      return DType::ComplexHalf;
    default:
      return real;
  }
}

DType real_of(DType complex) {
  switch (complex) {
    case DType::ComplexFloat:
      return DType::Float;
    case DType::ComplexDouble:
      return DType::Double;
    case DType::ComplexHalf:
      return DType::Half;
    default:
      return complex;
  }
}

DType result_type(const slim::SlimTensor& a, const slim::SlimTensor& b) {
  if ((a.dim() == 0) == (b.dim() == 0)) return promoted(a.dtype(), b.dtype());
  const slim::SlimTensor& strong = a.dim() == 0 ? b : a;
  const slim::SlimTensor& weak = a.dim() == 0 ? a : b;
  if (category(weak.dtype()) <= category(strong.dtype())) return strong.dtype();
  return promoted(strong.dtype(), weak.dtype());
}

}  // namespace pteron::aoti
