#include "pteron/backends/aoti/ops/distance/distance.h"

#include <vector>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/views.h"

namespace pteron::aoti::ops {

namespace {

Error check(const SlimTensor& x, double p) {
  PTERON_CHECK_OR_RETURN(x.dtype() == DType::Float || x.dtype() == DType::Double,
                         Error::InvalidType, "found %s, expected float32 or float64",
                         x.describe().c_str());
  PTERON_CHECK_OR_RETURN(p >= 0, Error::InvalidArgument, "found p %g, expected 0 or more", p);
  return Error::Ok;
}

// The matrices of `x`, repeated over the dimensions `batch`.
Result<TensorPtr> expand(const SlimTensor& x, const char* name, Span<const int64_t> batch) {
  std::vector<int64_t> sizes(batch.begin(), batch.end());
  sizes.insert(sizes.end(), x.sizes().end() - 2, x.sizes().end());
  return broadcast_to(x, name, sizes);
}

}  // namespace

// The compute mode selects an algorithm for the same result; this one is exact.
Error _cdist_forward(const Kernels& kernels, const SlimTensor& x1, const SlimTensor& x2, double p,
                     std::optional<int64_t>, TensorPtr& out) {
  PTERON_RETURN_IF_ERROR(check(x1, p));
  PTERON_CHECK_OR_RETURN(x1.dim() >= 2 && x2.dim() >= 2 && x1.dtype() == x2.dtype() &&
                             x1.size(x1.dim() - 1) == x2.size(x2.dim() - 1),
                         Error::InvalidArgument,
                         "found x1 %s, x2 %s, expected one dtype, 2 or more dimensions and equal "
                         "last sizes",
                         x1.describe().c_str(), x2.describe().c_str());
  CommonSizes batch(2);
  PTERON_RETURN_IF_ERROR(batch.add(x1, "x1"));
  PTERON_RETURN_IF_ERROR(batch.add(x2, "x2"));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr left, expand(x1, "x1", batch));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr right, expand(x2, "x2", batch));
  Sizes sizes(*left);
  sizes.values[sizes.dim - 1] = right->size(sizes.dim - 2);
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(sizes, x1.dtype(), x1.device()));
  return kernels.distance({*left, *right, p, false, *out});
}

Error _pdist_forward(const Kernels& kernels, const SlimTensor& self, double p, TensorPtr& out) {
  PTERON_RETURN_IF_ERROR(check(self, p));
  PTERON_CHECK_OR_RETURN(self.dim() == 2, Error::InvalidArgument,
                         "found self %s, expected 2 dimensions", self.describe().c_str());
  const int64_t rows = self.size(0), pairs = rows * (rows - 1) / 2;
  PTERON_ASSIGN_OR_RETURN(out, make_row_major({&pairs, 1}, self.dtype(), self.device()));
  return kernels.distance({self, self, p, true, *out});
}

}  // namespace pteron::aoti::ops
