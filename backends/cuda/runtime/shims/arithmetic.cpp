#include "pteron/backends/cuda/runtime/kernels/arithmetic.h"

#include <algorithm>

#include "pteron/backends/aoti/ops/arithmetic/arithmetic.h"
#include "pteron/backends/aoti/ops/promotion.h"
#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

Operand operand_of(const SlimTensor& tensor) {
  Operand operand;
  operand.data = tensor.data();
  operand.is_complex = slim::is_complex(tensor.dtype());
  operand.dtype = static_cast<ScalarType>(aoti::real_of(tensor.dtype()));
  std::copy(tensor.strides().begin(), tensor.strides().end(), operand.strides);
  return operand;
}

}  // namespace

Error arithmetic(const aoti::ArithmeticCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.a));
  Arithmetic arithmetic;
  arithmetic.kind = static_cast<ArithmeticKind>(call.kind);
  arithmetic.alpha = call.alpha;
  arithmetic.a = operand_of(call.a);
  arithmetic.b = operand_of(call.b);
  arithmetic.out = operand_of(call.out);
  arithmetic.dims = static_cast<int>(call.out.dim());
  arithmetic.count = call.out.numel();
  std::copy(call.out.sizes().begin(), call.out.sizes().end(), arithmetic.sizes);
  return compute(arithmetic, scope.stream());
}

}  // namespace pteron::cuda
