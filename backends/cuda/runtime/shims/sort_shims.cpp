// topk and sort_stable.
#include <algorithm>

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/kernels/sort.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"
#include "pteron/backends/cuda/runtime/shims/rows.h"

namespace pteron::cuda {
namespace {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;
using aoti::c_boundary;
using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

// The first `k` of `self` along `dim`, sorted, in results of the given strides.
Error sort_along(const SlimTensor& self, size_t dim, bool descending, int64_t k,
                 Span<const int64_t> sizes, Span<const int64_t> strides, AtenTensorHandle* values,
                 AtenTensorHandle* indices) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, rows_along(self, dim));
  PTERON_ASSIGN_OR_RETURN(RowResult sorted,
                          RowResult::make(sizes, strides, self.dtype(), self.device(), dim));
  PTERON_ASSIGN_OR_RETURN(RowResult order,
                          RowResult::make(sizes, strides, DType::Long, self.device(), dim));
  const int64_t n = self.dim() == 0 ? 1 : self.size(dim);
  const int64_t rows = n == 0 ? 0 : self.numel() / n;
  PTERON_RETURN_IF_ERROR(sort_rows(
      static_cast<ScalarType>(self.dtype()), x->data(), rows, n, descending, k, sorted.data(),
      static_cast<int64_t*>(order.data()), scope.device(), scope.stream()));
  PTERON_RETURN_IF_ERROR(sorted.finish());
  PTERON_RETURN_IF_ERROR(order.finish());
  *values = sorted.release();
  *indices = order.release();
  return Error::Ok;
}

Error check(const SlimTensor* self, AtenTensorHandle* ret0, AtenTensorHandle* ret1) {
  PTERON_RETURN_IF_ERROR(check_tensor(self, "self"));
  PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret0, "ret0"));
  PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret1, "ret1"));
  PTERON_CHECK_OR_RETURN(!slim::is_complex(self->dtype()), Error::InvalidType,
                         "found self %s, complex numbers have no order", self->describe().c_str());
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cuda_topk)(AtenTensorHandle self, int64_t k, int64_t dim,
                                            int32_t largest, int32_t, AtenTensorHandle* ret0,
                                            AtenTensorHandle* ret1) {
  return c_boundary("aoti_torch_cuda_topk", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check(self, ret0, ret1));
    PTERON_ASSIGN_OR_RETURN(const size_t at, aoti::dim_argument(dim, self->dim()));
    const int64_t n = self->dim() == 0 ? 1 : self->size(at);
    PTERON_CHECK_OR_RETURN(k >= 0 && k <= n, Error::InvalidArgument,
                           "found k %lld, expected 0 to %lld for dimension %lld of %s",
                           static_cast<long long>(k), static_cast<long long>(n),
                           static_cast<long long>(dim), self->describe().c_str());
    int64_t sizes[slim::kMaxDims], strides[slim::kMaxDims];
    std::copy(self->sizes().begin(), self->sizes().end(), sizes);
    if (self->dim() > 0) sizes[at] = k;
    const Span<const int64_t> shape(sizes, self->dim());
    slim::contiguous_strides(shape, strides);
    return sort_along(*self, at, largest != 0, k, shape, Span<const int64_t>(strides, self->dim()),
                      ret0, ret1);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cuda_sort_stable)(AtenTensorHandle self, int32_t*, int64_t dim,
                                                   int32_t descending, AtenTensorHandle* ret0,
                                                   AtenTensorHandle* ret1) {
  return c_boundary("aoti_torch_cuda_sort_stable", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check(self, ret0, ret1));
    PTERON_ASSIGN_OR_RETURN(const size_t at, aoti::dim_argument(dim, self->dim()));
    int64_t strides[slim::kMaxDims];
    strides_like(*self, self->sizes(), strides);
    const int64_t n = self->dim() == 0 ? 1 : self->size(at);
    return sort_along(*self, at, descending != 0, n, self->sizes(),
                      Span<const int64_t>(strides, self->dim()), ret0, ret1);
  });
}

}  // namespace pteron::cuda
