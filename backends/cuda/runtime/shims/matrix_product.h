// From checked tensors to one call of the GEMM layer: the part that all matrix-product shims share.
//
//   MatrixProduct product;
//   product.out = MatrixView::of_matrix(*out);
//   product.a = MatrixView::of_matrix(*self);
//   product.b = MatrixView::of_matrix(*mat2);
//   PTERON_RETURN_IF_ERROR(run(product, dtype, scope.device(), scope.stream()));
//
// Operands whose rows or columns are contiguous are used where they lie; any other is made
// contiguous by one kernel, and an out of that kind is computed aside and copied.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

// A batch of matrices anywhere in device memory; strides in elements.
struct MatrixView {
  void* data = nullptr;
  int64_t batch = 1, rows = 0, cols = 0;
  int64_t batch_stride = 0, row_stride = 0, col_stride = 0;

  // `tensor` has 2 dimensions.
  static MatrixView of_matrix(const slim::SlimTensor& tensor);
  // `tensor` has 3.
  static MatrixView of_batch(const slim::SlimTensor& tensor);
  // `tensor`, repeated where its size is 1 or a leading dimension is missing, in the shape of
  // `shape`; nothing if that is not possible.
  static std::optional<MatrixView> broadcast(const slim::SlimTensor& tensor,
                                             const MatrixView& shape);
};

// out = beta * c + alpha * a @ b.
struct MatrixProduct {
  MatrixView out, a, b;
  std::optional<MatrixView> c;  // of the shape of out; ignored if beta is 0
  double alpha = 1.0;
  double beta = 0.0;
};

// Shapes must fit; only dtype and sizes of the library are still checked. `device` must be current.
Error run(const MatrixProduct& product, slim::DType dtype, int device, cudaStream_t stream);

}  // namespace pteron::cuda
