#include "pteron/backends/aoti/ops/arithmetic/arithmetic.h"

#include <algorithm>

#include "pteron/backends/apple/metal/runtime/kernels/kernels.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

// The real dtype of a tensor's elements; complex elements have two values.
DType part_of(const SlimTensor& tensor) {
  return tensor.dtype() == DType::ComplexFloat ? DType::Float : tensor.dtype();
}

int64_t parts_of(const SlimTensor& tensor) { return tensor.dtype() == DType::ComplexFloat ? 2 : 1; }

// All of one size.
Error launch_of(int64_t kind, double alpha, const SlimTensor& a, const SlimTensor& b,
                const SlimTensor& out) {
  PTERON_CHECK_OR_RETURN(out.dim() <= kMostDims, Error::NotSupported,
                         "found %zu dimensions, at most %lld are possible", out.dim(),
                         static_cast<long long>(kMostDims));
  ArithmeticParams params{};
  params.dims = static_cast<int64_t>(out.dim());
  params.kind = kind;
  params.scale = static_cast<int64_t>(alpha);
  params.alpha = static_cast<float>(alpha);
  std::copy(out.sizes().begin(), out.sizes().end(), params.sizes);
  std::copy(a.strides().begin(), a.strides().end(), params.a);
  std::copy(b.strides().begin(), b.strides().end(), params.b);
  std::copy(out.strides().begin(), out.strides().end(), params.out);
  params.parts = parts_of(out);
  params.a_parts = parts_of(a);
  params.b_parts = parts_of(b);
  return launch(kArithmeticSource, {{"A", part_of(a)}, {"B", part_of(b)}, {"OUT", part_of(out)}},
                "of_elements", {memory(out), memory(a), memory(b), bytes(params)},
                {static_cast<uint64_t>(out.numel()), 1, 1});
}

}  // namespace

Error arithmetic(const aoti::ArithmeticCall& call) {
  return launch_of(static_cast<int64_t>(call.kind), call.alpha, call.a, call.b, call.out);
}

Result<TensorPtr> converted(const SlimTensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return slim::contiguous_tensor(tensor);
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy,
                          aoti::make_row_major(tensor.sizes(), dtype, tensor.device()));
  PTERON_RETURN_IF_ERROR(launch_of(-1, 0, tensor, tensor, *copy));
  return copy;
}

}  // namespace pteron::metal
