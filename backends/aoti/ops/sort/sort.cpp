#include "pteron/backends/aoti/ops/sort/sort.h"

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

Error sort(const Kernels& kernels, const SlimTensor& self, int64_t dim, bool descending,
           TensorPtr& values, TensorPtr& indices) {
  PTERON_RETURN_IF_ERROR(check_ordered(self));
  PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, self.dim()));
  PTERON_ASSIGN_OR_RETURN(values, make_ordered_like(self, self.dtype()));
  PTERON_ASSIGN_OR_RETURN(indices, make_ordered_like(self, DType::Long));
  return kernels.sort({self, d, descending, true, size_along(self, d), *values, *indices});
}

Error sort_stable(const Kernels& kernels, const SlimTensor& self, std::optional<bool>, int64_t dim,
                  bool descending, TensorPtr& values, TensorPtr& indices) {
  return sort(kernels, self, dim, descending, values, indices);
}

Error topk(const Kernels& kernels, const SlimTensor& self, int64_t k, int64_t dim, bool largest,
           bool, TensorPtr& values, TensorPtr& indices) {
  PTERON_RETURN_IF_ERROR(check_ordered(self));
  PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, self.dim()));
  const int64_t length = size_along(self, d);
  PTERON_CHECK_OR_RETURN(k >= 0 && k <= length, Error::InvalidArgument,
                         "found k %lld, expected 0 to %lld for dimension %zu of %s",
                         static_cast<long long>(k), static_cast<long long>(length), d,
                         self.describe().c_str());
  Sizes sizes(self);
  if (self.dim() > 0) sizes.values[d] = k;
  PTERON_ASSIGN_OR_RETURN(values, make_row_major(sizes, self.dtype(), self.device()));
  PTERON_ASSIGN_OR_RETURN(indices, make_row_major(sizes, DType::Long, self.device()));
  return kernels.sort({self, d, largest, false, k, *values, *indices});
}

}  // namespace pteron::aoti::ops
