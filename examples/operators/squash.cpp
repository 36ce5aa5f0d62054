// example::squash(Tensor x, float limit) -> Tensor on the CPU: limit * tanh(x / limit), elementwise,
// of contiguous float32 tensors.
#include <cmath>
#include <cstdint>

#include "pteron/backends/aoti/shims/operators.h"

using namespace pteron::aoti;  // the runtime's C functions

namespace {

constexpr int32_t kFloat32 = 6;

bool is_contiguous(int64_t dim, const int64_t* sizes, const int64_t* strides) {
  int64_t expected = 1;
  for (int64_t d = dim - 1; d >= 0; --d) {
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

}  // namespace

PTERON_OPERATOR(cpu_squash, AtenTensorHandle x, double limit, AtenTensorHandle* ret0) {
  int64_t dim = 0;
  int64_t numel = 0;
  int64_t* sizes = nullptr;
  int64_t* strides = nullptr;
  int32_t dtype = 0;
  void* source = nullptr;
  void* target = nullptr;
  if (ptrn_torch_get_dim(x, &dim) || ptrn_torch_get_numel(x, &numel) ||
      ptrn_torch_get_sizes(x, &sizes) || ptrn_torch_get_strides(x, &strides) ||
      ptrn_torch_get_dtype(x, &dtype) || ptrn_torch_get_data_ptr(x, &source)) {
    return kAotiFailure;
  }
  if (dtype != kFloat32 || !is_contiguous(dim, sizes, strides)) return kAotiFailure;
  if (ptrn_torch_empty_strided(dim, sizes, strides, dtype, ptrn_torch_device_type_cpu(), -1,
                               ret0) ||
      ptrn_torch_get_data_ptr(*ret0, &target)) {
    return kAotiFailure;
  }
  const auto width = static_cast<float>(limit);
  const auto* const from = static_cast<const float*>(source);
  auto* const to = static_cast<float*>(target);
  for (int64_t i = 0; i < numel; ++i) to[i] = width * std::tanh(from[i] / width);
  return kAotiSuccess;
}
