#include "pteron/backends/cuda/runtime/shims/product_arguments.h"

#include "pteron/backends/cuda/runtime/kernels/gemm.h"

namespace pteron::cuda {
namespace {

using slim::SlimTensor;

bool is_on(const SlimTensor* tensor, Device device) {
  return tensor && tensor->is_defined() && tensor->device() == device;
}

bool repeats(const SlimTensor& tensor) {
  for (size_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) return true;
  }
  return false;
}

bool fits(size_t dims, const SlimTensor& out, const SlimTensor& a, const SlimTensor& b) {
  const size_t row = dims - 2, col = dims - 1;
  const bool batches = dims == 2 || (a.size(0) == b.size(0) && out.size(0) == a.size(0));
  return batches && a.size(col) == b.size(row) && out.size(row) == a.size(row) &&
         out.size(col) == b.size(col);
}

// Says what is wrong; one of these fails.
Error explain(size_t dims, const NamedTensor& out, const NamedTensor& a, const NamedTensor& b) {
  PTERON_RETURN_IF_ERROR(check_tensors({out, a, b}));
  for (const NamedTensor* named : {&out, &a, &b}) {
    PTERON_RETURN_IF_ERROR(check_dim(*named->tensor, named->name, dims));
  }
  const std::string all = describe({a, b, out});
  PTERON_CHECK_OR_RETURN(is_gemm_type(static_cast<ScalarType>(a.tensor->dtype())),
                         Error::InvalidType,
                         "found %s, expected float16, bfloat16, float32 or float64", all.c_str());
  PTERON_CHECK_OR_RETURN(
      a.tensor->dtype() == b.tensor->dtype() && a.tensor->dtype() == out.tensor->dtype(),
      Error::InvalidType, "found %s, expected one dtype", all.c_str());
  PTERON_CHECK_OR_RETURN(
      fits(dims, *out.tensor, *a.tensor, *b.tensor), Error::InvalidArgument,
      "found %s, expected %s", all.c_str(),
      dims == 2 ? "[m, k] @ [k, n] into [m, n]" : "[b, m, k] @ [b, k, n] into [b, m, n]");
  return check_writable(*out.tensor, out.name);
}

}  // namespace

Error check_product(size_t dims, const NamedTensor& out, const NamedTensor& a,
                    const NamedTensor& b) {
  const SlimTensor *y = out.tensor, *x = a.tensor, *w = b.tensor;
  const bool right =
      y && y->is_defined() && y->device().type == DeviceType::CUDA && is_on(x, y->device()) &&
      is_on(w, y->device()) && y->dim() == dims && x->dim() == dims && w->dim() == dims &&
      x->dtype() == y->dtype() && w->dtype() == y->dtype() &&
      is_gemm_type(static_cast<ScalarType>(y->dtype())) && fits(dims, *y, *x, *w) && !repeats(*y);
  if (__builtin_expect(right, 1)) return Error::Ok;
  return explain(dims, out, a, b);
}

Result<MatrixView> addend_of(const SlimTensor* self, const SlimTensor& out,
                             const MatrixView& shape) {
  if (Error error = check_tensors({{"out", &out}, {"self", self}}); !error.ok()) {
    return std::move(error);
  }
  std::optional<MatrixView> view;
  if (self->dim() <= out.dim()) view = MatrixView::broadcast(*self, shape);
  const auto both = [&] { return describe({{"self", self}, {"out", &out}}); };
  PTERON_CHECK_OR_RETURN(view.has_value(), Error::InvalidArgument,
                         "found %s, expected a self that broadcasts to out", both().c_str());
  PTERON_CHECK_OR_RETURN(self->dtype() == out.dtype(), Error::InvalidType,
                         "found %s, expected one dtype", both().c_str());
  return *view;
}

}  // namespace pteron::cuda
