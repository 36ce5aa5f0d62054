// cumsum.
#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/cuda/runtime/kernels/scan.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"
#include "pteron/backends/cuda/runtime/shims/rows.h"

namespace pteron::cuda {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;

PTERON_AOTI_SHIM(AOTITorchError, cuda_cumsum)(AtenTensorHandle self, int64_t dim, int32_t* dtype,
                                              AtenTensorHandle* ret0) {
  return aoti::c_boundary("aoti_torch_cuda_cumsum", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_tensor(self, "self"));
    PTERON_RETURN_IF_ERROR(aoti::check_pointer(ret0, "ret0"));
    PTERON_CHECK_OR_RETURN(!slim::is_complex(self->dtype()), Error::InvalidType,
                           "found self %s, expected real numbers", self->describe().c_str());
    PTERON_ASSIGN_OR_RETURN(const size_t at, aoti::dim_argument(dim, self->dim()));
    slim::DType result_dtype =
        slim::is_floating_point(self->dtype()) ? self->dtype() : slim::DType::Long;
    if (dtype) {
      PTERON_ASSIGN_OR_RETURN(result_dtype, aoti::dtype_argument(*dtype));
    }
    int64_t strides[slim::kMaxDims];
    strides_like(*self, self->sizes(), strides);
    PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(*self));
    PTERON_ASSIGN_OR_RETURN(slim::TensorPtr x, rows_along(*self, at));
    PTERON_ASSIGN_OR_RETURN(
        RowResult sums, RowResult::make(self->sizes(), Span<const int64_t>(strides, self->dim()),
                                        result_dtype, self->device(), at));
    const int64_t n = self->dim() == 0 ? 1 : self->size(at);
    const int64_t rows = n == 0 ? 0 : self->numel() / n;
    PTERON_RETURN_IF_ERROR(cumsum_rows(static_cast<ScalarType>(self->dtype()), x->data(),
                                       static_cast<ScalarType>(result_dtype), sums.data(), rows, n,
                                       scope.stream()));
    PTERON_RETURN_IF_ERROR(sums.finish());
    *ret0 = sums.release();
    return Error::Ok;
  });
}

}  // namespace pteron::cuda
