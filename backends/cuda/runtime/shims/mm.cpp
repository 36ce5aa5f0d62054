// Products of two matrices: mm_out and addmm_out.
#include "backends/aoti/shims/c_boundary.h"
#include "backends/cuda/runtime/kernels/gemm.h"
#include "backends/cuda/runtime/shims/arguments.h"
#include "backends/cuda/runtime/shims/matrix_product.h"

namespace pteron::cuda {
namespace {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;
using aoti::c_boundary;
using slim::SlimTensor;

Error check_product(const SlimTensor* out, const SlimTensor* a, const char* a_name,
                    const SlimTensor* b) {
  PTERON_RETURN_IF_ERROR(check_tensors({{"out", out}, {a_name, a}, {"mat2", b}}));
  PTERON_RETURN_IF_ERROR(check_dim(*out, "out", 2));
  PTERON_RETURN_IF_ERROR(check_dim(*a, a_name, 2));
  PTERON_RETURN_IF_ERROR(check_dim(*b, "mat2", 2));
  const auto all = [&] { return describe({{a_name, a}, {"mat2", b}, {"out", out}}); };
  PTERON_CHECK_OR_RETURN(is_gemm_type(static_cast<ScalarType>(a->dtype())), Error::InvalidType,
                         "found %s, expected float16, bfloat16, float32 or float64", all().c_str());
  PTERON_CHECK_OR_RETURN(a->dtype() == b->dtype() && a->dtype() == out->dtype(), Error::InvalidType,
                         "found %s, expected one dtype", all().c_str());
  PTERON_CHECK_OR_RETURN(
      a->size(1) == b->size(0) && out->size(0) == a->size(0) && out->size(1) == b->size(1),
      Error::InvalidArgument, "found %s, expected [m, k] @ [k, n] into [m, n]", all().c_str());
  return check_writable(*out, "out");
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cuda_mm_out)(AtenTensorHandle out, AtenTensorHandle self,
                                              AtenTensorHandle mat2) {
  return c_boundary("aoti_torch_cuda_mm_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_product(out, self, "self", mat2));
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
    PTERON_RETURN_IF_ERROR(check_product(out, mat1, "mat1", mat2));
    PTERON_RETURN_IF_ERROR(check_tensors({{"out", out}, {"self", self}}));
    MatrixProduct product;
    product.out = MatrixView::of_matrix(*out);
    product.a = MatrixView::of_matrix(*mat1);
    product.b = MatrixView::of_matrix(*mat2);
    product.c = MatrixView::broadcast(*self, product.out);
    PTERON_CHECK_OR_RETURN(product.c.has_value() && self->dim() <= 2, Error::InvalidArgument,
                           "found %s, expected a self that broadcasts to out",
                           describe({{"self", self}, {"out", out}}).c_str());
    PTERON_CHECK_OR_RETURN(self->dtype() == out->dtype(), Error::InvalidType,
                           "found %s, expected one dtype",
                           describe({{"self", self}, {"out", out}}).c_str());
    product.alpha = alpha;
    product.beta = beta;
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*out));
    return run(product, out->dtype(), scope.device(), scope.stream());
  });
}

}  // namespace pteron::cuda
