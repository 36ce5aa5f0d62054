#include "pteron/backends/aoti/ops/scan/scan.h"

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

using Kind = ScanCall::Kind;

namespace {

Error accumulate(const Kernels& kernels, Kind kind, const SlimTensor& self, int64_t dim,
                 std::optional<DType> dtype, TensorPtr& out) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, self.dim()));
  const bool is_integer = !slim::is_floating_point(self.dtype()) && !slim::is_complex(self.dtype());
  const DType type = dtype.value_or(is_integer ? DType::Long : self.dtype());
  PTERON_CHECK_OR_RETURN(!slim::is_complex(self.dtype()) && !slim::is_complex(type),
                         Error::InvalidType, "found self %s, expected real numbers",
                         self.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(self.sizes(), type, self.device()));
  return kernels.scan({kind, self, d, *out, nullptr});
}

Error extremes(const Kernels& kernels, Kind kind, const SlimTensor& self, int64_t dim,
               TensorPtr& values, TensorPtr& indices) {
  PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, self.dim()));
  PTERON_RETURN_IF_ERROR(check_ordered(self));
  PTERON_ASSIGN_OR_RETURN(values, make_row_major(self.sizes(), self.dtype(), self.device()));
  PTERON_ASSIGN_OR_RETURN(indices, make_row_major(self.sizes(), DType::Long, self.device()));
  return kernels.scan({kind, self, d, *values, indices.get()});
}

}  // namespace

Error cumsum(const Kernels& kernels, const SlimTensor& self, int64_t dim,
             std::optional<DType> dtype, TensorPtr& out) {
  return accumulate(kernels, Kind::kSum, self, dim, dtype, out);
}

Error cumprod(const Kernels& kernels, const SlimTensor& self, int64_t dim,
              std::optional<DType> dtype, TensorPtr& out) {
  return accumulate(kernels, Kind::kProduct, self, dim, dtype, out);
}

Error logcumsumexp(const Kernels& kernels, const SlimTensor& self, int64_t dim, TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(slim::is_floating_point(self.dtype()), Error::InvalidType,
                         "found self %s, expected floating-point numbers", self.describe().c_str());
  return accumulate(kernels, Kind::kLogSumExp, self, dim, std::nullopt, out);
}

Error cummax(const Kernels& kernels, const SlimTensor& self, int64_t dim, TensorPtr& values,
             TensorPtr& indices) {
  return extremes(kernels, Kind::kMaximum, self, dim, values, indices);
}

Error cummin(const Kernels& kernels, const SlimTensor& self, int64_t dim, TensorPtr& values,
             TensorPtr& indices) {
  return extremes(kernels, Kind::kMinimum, self, dim, values, indices);
}

}  // namespace pteron::aoti::ops
