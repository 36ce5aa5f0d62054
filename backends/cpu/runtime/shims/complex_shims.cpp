// Arithmetic that generated code leaves to us: that of complex numbers. Real ones work as well.
#include <cmath>
#include <complex>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"
#include "pteron/backends/cpu/runtime/shims/output_layout.h"

namespace pteron::cpu {
namespace {

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
  if (category(a) == 3 && (b == DType::Double)) return DType::ComplexDouble;
  if (a == DType::ComplexHalf && category(b) == 2 && b != DType::Half) return DType::ComplexFloat;
  return a;
}

// A tensor without dimensions counts only where it is of a higher category.
DType result_type(const SlimTensor& a, const SlimTensor& b) {
  if ((a.dim() == 0) == (b.dim() == 0)) return promoted(a.dtype(), b.dtype());
  const SlimTensor& strong = a.dim() == 0 ? b : a;
  const SlimTensor& weak = a.dim() == 0 ? a : b;
  if (category(weak.dtype()) <= category(strong.dtype())) return strong.dtype();
  return promoted(strong.dtype(), weak.dtype());
}

// out[i] = op(a[i], b[i]) for row-major data of one type.
template <typename T, typename Op>
void apply(const SlimTensor& a, const SlimTensor& b, const SlimTensor& out, const Op& op) {
  const T* x = a.data_as<const T>();
  const T* y = b.data_as<const T>();
  T* z = out.data_as<T>();
  parallel_for(out.numel(), 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) z[i] = op(x[i], y[i]);
  });
}

enum class Operation { kAdd, kMultiply };

template <typename T>
void compute(Operation operation, double alpha, const SlimTensor& a, const SlimTensor& b,
             const SlimTensor& out) {
  if (operation == Operation::kMultiply) {
    return apply<T>(a, b, out, [](T x, T y) { return static_cast<T>(x * y); });
  }
  const T scale = static_cast<T>(alpha);
  apply<T>(a, b, out, [scale](T x, T y) { return static_cast<T>(x + scale * y); });
}

// 16-bit floats and half complex numbers are computed in the next wider type.
DType computing_type(DType dtype) {
  switch (dtype) {
    case DType::Half:
    case DType::BFloat16:
      return DType::Float;
    case DType::ComplexHalf:
      return DType::ComplexFloat;
    default:
      return dtype;
  }
}

Error binary(Operation operation, double alpha, AtenTensorHandle self, AtenTensorHandle other,
             AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(other, "other"));
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  PTERON_ASSIGN_OR_RETURN(const Broadcast shape, broadcast(*self, *other));
  const DType dtype = result_type(*self, *other), computed = computing_type(dtype);
  PTERON_ASSIGN_OR_RETURN(TensorPtr a, slim::make_tensor(shape.shape(), computed));
  PTERON_ASSIGN_OR_RETURN(TensorPtr b, slim::make_tensor(shape.shape(), computed));
  PTERON_ASSIGN_OR_RETURN(TensorPtr result, slim::make_tensor(shape.shape(), computed));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*a, *self));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*b, *other));
  switch (computed) {
    case DType::ComplexFloat:
      compute<std::complex<float>>(operation, alpha, *a, *b, *result);
      break;
    case DType::ComplexDouble:
      compute<std::complex<double>>(operation, alpha, *a, *b, *result);
      break;
    case DType::Float:
      compute<float>(operation, alpha, *a, *b, *result);
      break;
    case DType::Double:
      compute<double>(operation, alpha, *a, *b, *result);
      break;
    case DType::Long:
      compute<int64_t>(operation, alpha, *a, *b, *result);
      break;
    case DType::Int:
      compute<int32_t>(operation, alpha, *a, *b, *result);
      break;
    default:
      return PTERON_CPU_NO_DTYPE(result);
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr out,
                          make_ordered_like(shape.shape(), dtype, {shape.a, shape.b}));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *result));
  *ret = out.release();
  return Error::Ok;
}

Error absolute(AtenTensorHandle self, AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  const DType dtype = self->dtype();
  const DType real = dtype == DType::ComplexFloat    ? DType::Float
                     : dtype == DType::ComplexDouble ? DType::Double
                     : dtype == DType::ComplexHalf   ? DType::Half
                                                     : dtype;
  const DType computed = slim::is_complex(dtype) ? DType::ComplexDouble
                         : category(dtype) == 2  ? DType::Double
                                                 : DType::Long;
  PTERON_ASSIGN_OR_RETURN(TensorPtr in, slim::make_tensor(self->sizes(), computed));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*in, *self));
  const DType result_dtype = computed == DType::ComplexDouble ? DType::Double : computed;
  PTERON_ASSIGN_OR_RETURN(TensorPtr result, slim::make_tensor(self->sizes(), result_dtype));
  for (int64_t i = 0; i < in->numel(); ++i) {
    if (computed == DType::ComplexDouble) {
      result->data_as<double>()[i] = std::abs(in->data_as<std::complex<double>>()[i]);
    } else if (computed == DType::Double) {
      result->data_as<double>()[i] = std::fabs(in->data_as<double>()[i]);
    } else {
      // The lowest number has no counterpart, and stays.
      const int64_t value = in->data_as<int64_t>()[i];
      result->data_as<int64_t>()[i] =
          value < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(value)) : value;
    }
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr out, make_ordered_like(*self, real));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *result));
  *ret = out.release();
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu_mul_Tensor)
(AtenTensorHandle self, AtenTensorHandle other, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_mul_Tensor",
                    [&] { return binary(Operation::kMultiply, 1, self, other, ret); });
}

// self + alpha * other.
PTERON_AOTI_SHIM(AOTITorchError, cpu_add_Tensor)
(AtenTensorHandle self, AtenTensorHandle other, double alpha, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_add_Tensor",
                    [&] { return binary(Operation::kAdd, alpha, self, other, ret); });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_abs)(AtenTensorHandle self, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_abs", [&] { return absolute(self, ret); });
}

}  // namespace pteron::cpu
