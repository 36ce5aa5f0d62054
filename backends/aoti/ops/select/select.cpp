#include "pteron/backends/aoti/ops/select/select.h"

#include <limits>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/views.h"
#include "pteron/backends/aoti/slim/core/scalar.h"

namespace pteron::aoti::ops {

using Kind = SelectCall::Kind;

namespace {

Error select(const Kernels& kernels, Kind kind, const SlimTensor& self, int64_t k, int64_t dim,
             bool keepdim, TensorPtr& values, TensorPtr& indices) {
  PTERON_RETURN_IF_ERROR(check_ordered(self));
  PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, self.dim()));
  const int64_t length = size_along(self, d);
  PTERON_CHECK_OR_RETURN(length > 0, Error::InvalidArgument,
                         "found self %s, expected elements along dimension %zu",
                         self.describe().c_str(), d);
  PTERON_CHECK_OR_RETURN(k >= 1 && k <= length, Error::InvalidArgument,
                         "found k %lld, expected 1 to %lld for dimension %zu of %s",
                         static_cast<long long>(k), static_cast<long long>(length), d,
                         self.describe().c_str());
  Sizes sizes(self);
  sizes.reduce(d, keepdim);
  PTERON_ASSIGN_OR_RETURN(values, make_row_major(sizes, self.dtype(), self.device()));
  PTERON_ASSIGN_OR_RETURN(indices, make_row_major(sizes, DType::Long, self.device()));
  return kernels.select({kind, self, d, k, *values, *indices});
}

// Over all elements; NaN if empty.
Error select_of_all(const Kernels& kernels, Kind kind, const SlimTensor& self, TensorPtr& out) {
  if (self.numel() > 0) {
    PTERON_ASSIGN_OR_RETURN(const TensorPtr flat, flattened(self));
    TensorPtr index;
    return select(kernels, kind, *flat, 1, 0, false, out, index);
  }
  PTERON_CHECK_OR_RETURN(slim::is_floating_point(self.dtype()), Error::InvalidArgument,
                         "found self %s, expected elements", self.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(TensorPtr nan, slim::make_tensor({}, self.dtype()));
  slim::fill_tensor(*nan, slim::Scalar::of(std::numeric_limits<double>::quiet_NaN()));
  PTERON_ASSIGN_OR_RETURN(out, make_row_major({}, self.dtype(), self.device()));
  return slim::copy_tensor(*out, *nan);
}

}  // namespace

Error kthvalue(const Kernels& kernels, const SlimTensor& self, int64_t k, int64_t dim, bool keepdim,
               TensorPtr& values, TensorPtr& indices) {
  return select(kernels, Kind::kKth, self, k, dim, keepdim, values, indices);
}

Error median(const Kernels& kernels, const SlimTensor& self, TensorPtr& out) {
  return select_of_all(kernels, Kind::kMedian, self, out);
}

Error median_dim(const Kernels& kernels, const SlimTensor& self, int64_t dim, bool keepdim,
                 TensorPtr& values, TensorPtr& indices) {
  return select(kernels, Kind::kMedian, self, 1, dim, keepdim, values, indices);
}

Error nanmedian(const Kernels& kernels, const SlimTensor& self, TensorPtr& out) {
  return select_of_all(kernels, Kind::kNanMedian, self, out);
}

Error nanmedian_dim(const Kernels& kernels, const SlimTensor& self, int64_t dim, bool keepdim,
                    TensorPtr& values, TensorPtr& indices) {
  return select(kernels, Kind::kNanMedian, self, 1, dim, keepdim, values, indices);
}

Error mode(const Kernels& kernels, const SlimTensor& self, int64_t dim, bool keepdim,
           TensorPtr& values, TensorPtr& indices) {
  return select(kernels, Kind::kMode, self, 1, dim, keepdim, values, indices);
}

}  // namespace pteron::aoti::ops
