#include "pteron/backends/cuda/runtime/kernels/arithmetic.h"

#include <algorithm>

#include "pteron/backends/aoti/ops/arithmetic.h"
#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

Operand operand_of(const SlimTensor& tensor, const int64_t* strides, size_t dim) {
  Operand operand;
  operand.data = tensor.data();
  operand.is_complex = slim::is_complex(tensor.dtype());
  operand.dtype = static_cast<ScalarType>(aoti::real_of(tensor.dtype()));
  std::copy(strides, strides + dim, operand.strides);
  return operand;
}

}  // namespace

Error arithmetic(const aoti::ArithmeticCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.a));
  const size_t dim = call.shape.dim;
  Arithmetic arithmetic;
  arithmetic.kind = static_cast<ArithmeticKind>(call.kind);
  arithmetic.alpha = call.alpha;
  arithmetic.a = operand_of(call.a, call.shape.a, dim);
  arithmetic.b = operand_of(call.b, call.shape.b, dim);
  arithmetic.out = operand_of(call.out, call.out.strides().data(), dim);
  arithmetic.dims = static_cast<int>(dim);
  arithmetic.count = call.out.numel();
  std::copy(call.shape.sizes, call.shape.sizes + dim, arithmetic.sizes);
  return compute(arithmetic, scope.stream());
}

}  // namespace pteron::cuda
