// Products of two batches of matrices: bmm_out and baddbmm_out.
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
                    const SlimTensor* b, const char* b_name) {
  PTERON_RETURN_IF_ERROR(check_tensors({{"out", out}, {a_name, a}, {b_name, b}}));
  PTERON_RETURN_IF_ERROR(check_dim(*out, "out", 3));
  PTERON_RETURN_IF_ERROR(check_dim(*a, a_name, 3));
  PTERON_RETURN_IF_ERROR(check_dim(*b, b_name, 3));
  const auto all = [&] { return describe({{a_name, a}, {b_name, b}, {"out", out}}); };
  PTERON_CHECK_OR_RETURN(is_gemm_type(static_cast<ScalarType>(a->dtype())), Error::InvalidType,
                         "found %s, expected float16, bfloat16, float32 or float64", all().c_str());
  PTERON_CHECK_OR_RETURN(a->dtype() == b->dtype() && a->dtype() == out->dtype(), Error::InvalidType,
                         "found %s, expected one dtype", all().c_str());
  PTERON_CHECK_OR_RETURN(a->size(0) == b->size(0) && out->size(0) == a->size(0) &&
                             a->size(2) == b->size(1) && out->size(1) == a->size(1) &&
                             out->size(2) == b->size(2),
                         Error::InvalidArgument,
                         "found %s, expected [b, m, k] @ [b, k, n] into [b, m, n]", all().c_str());
  return check_writable(*out, "out");
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cuda_bmm_out)(AtenTensorHandle out, AtenTensorHandle self,
                                               AtenTensorHandle mat2) {
  return c_boundary("aoti_torch_cuda_bmm_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_product(out, self, "self", mat2, "mat2"));
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
    PTERON_RETURN_IF_ERROR(check_product(out, batch1, "batch1", batch2, "batch2"));
    PTERON_RETURN_IF_ERROR(check_tensors({{"out", out}, {"self", self}}));
    MatrixProduct product;
    product.out = MatrixView::of_batch(*out);
    product.a = MatrixView::of_batch(*batch1);
    product.b = MatrixView::of_batch(*batch2);
    product.c = MatrixView::broadcast(*self, product.out);
    PTERON_CHECK_OR_RETURN(product.c.has_value(), Error::InvalidArgument,
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
