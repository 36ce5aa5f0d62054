// Products of two matrices, and of two batches of them.
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"
#include "pteron/backends/cuda/runtime/shims/matrix_product.h"
#include "pteron/backends/cuda/runtime/shims/product_arguments.h"

namespace pteron::cuda {
namespace {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;
using aoti::c_boundary;

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cuda_mm_out)(AtenTensorHandle out, AtenTensorHandle self,
                                              AtenTensorHandle mat2) {
  return c_boundary("aoti_torch_cuda_mm_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_product(2, {"out", out}, {"self", self}, {"mat2", mat2}));
    MatrixProduct product;
    product.out = MatrixView::of_matrix(*out);
    product.a = MatrixView::of_matrix(*self);
    product.b = MatrixView::of_matrix(*mat2);
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*out));
    return run(product, out->dtype(), scope.device(), scope.stream());
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_addmm_out)(AtenTensorHandle out, AtenTensorHandle self,
                                                 AtenTensorHandle mat1, AtenTensorHandle mat2,
                                                 double beta, double alpha) {
  return c_boundary("aoti_torch_cuda_addmm_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_product(2, {"out", out}, {"mat1", mat1}, {"mat2", mat2}));
    MatrixProduct product;
    product.out = MatrixView::of_matrix(*out);
    product.a = MatrixView::of_matrix(*mat1);
    product.b = MatrixView::of_matrix(*mat2);
    PTERON_ASSIGN_OR_RETURN(product.c, addend_of(self, *out, product.out));
    product.alpha = alpha;
    product.beta = beta;
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*out));
    return run(product, out->dtype(), scope.device(), scope.stream());
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_bmm_out)(AtenTensorHandle out, AtenTensorHandle self,
                                               AtenTensorHandle mat2) {
  return c_boundary("aoti_torch_cuda_bmm_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_product(3, {"out", out}, {"self", self}, {"mat2", mat2}));
    MatrixProduct product;
    product.out = MatrixView::of_batch(*out);
    product.a = MatrixView::of_batch(*self);
    product.b = MatrixView::of_batch(*mat2);
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*out));
    return run(product, out->dtype(), scope.device(), scope.stream());
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_baddbmm_out)(AtenTensorHandle out, AtenTensorHandle self,
                                                   AtenTensorHandle batch1, AtenTensorHandle batch2,
                                                   double beta, double alpha) {
  return c_boundary("aoti_torch_cuda_baddbmm_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_product(3, {"out", out}, {"batch1", batch1}, {"batch2", batch2}));
    MatrixProduct product;
    product.out = MatrixView::of_batch(*out);
    product.a = MatrixView::of_batch(*batch1);
    product.b = MatrixView::of_batch(*batch2);
    PTERON_ASSIGN_OR_RETURN(product.c, addend_of(self, *out, product.out));
    product.alpha = alpha;
    product.beta = beta;
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*out));
    return run(product, out->dtype(), scope.device(), scope.stream());
  });
}

}  // namespace pteron::cuda
