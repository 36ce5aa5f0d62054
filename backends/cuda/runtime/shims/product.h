// Operands of matmuls, and matmuls of integers. Internal to the family.
#pragma once

#include <cstdint>
#include <optional>

#include "pteron/backends/aoti/ops/product/product.h"
#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

// A batch of matrices; strides in elements.
struct MatrixView {
  void* data = nullptr;
  int64_t batch = 1, rows = 0, cols = 0;
  int64_t batch_stride = 0, row_stride = 0, col_stride = 0;
};

// `tensor` in the shape of `like`, which it broadcasts to; without one, in its own.
MatrixView view_of(const SlimTensor& tensor, const MatrixView* like = nullptr);

// For the GEMM library; none if it would need a copy.
std::optional<GemmMatrix> in_place(const MatrixView& view);

// Integer matmul, which wraps. InvalidType for anything but one dtype of uint8, int8, int16, int32,
// int64, or int8 to int32.
Error integer_product(const aoti::ProductCall& call, const DeviceScope& scope);

}  // namespace pteron::cuda
