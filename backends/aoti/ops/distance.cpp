#include "pteron/backends/aoti/ops/distance.h"

#include <algorithm>

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

namespace {

Error check(const SlimTensor& x, double p) {
  PTERON_CHECK_OR_RETURN(x.dtype() == DType::Float || x.dtype() == DType::Double,
                         Error::InvalidType, "found %s, expected float32 or float64",
                         x.describe().c_str());
  PTERON_CHECK_OR_RETURN(p >= 0, Error::InvalidArgument, "found p %g, expected 0 or more", p);
  return Error::Ok;
}

// `x` as if it were repeated over the dimensions `batch`.
Error expand(const SlimTensor& x, Span<const int64_t> batch, SlimTensor* expanded) {
  int64_t sizes[slim::kMaxDims], strides[slim::kMaxDims];
  const size_t added = batch.size() + 2 - x.dim();
  std::copy(batch.begin(), batch.end(), sizes);
  for (size_t d = 0; d < batch.size() + 2; ++d) {
    if (d >= batch.size()) sizes[d] = x.size(d - added);
    strides[d] = d < added || x.size(d - added) != sizes[d] ? 0 : x.stride(d - added);
  }
  return expanded->set(x.storage(), Span<const int64_t>(sizes, batch.size() + 2),
                       Span<const int64_t>(strides, batch.size() + 2), x.storage_offset(),
                       x.dtype());
}

}  // namespace

// The compute mode chooses between ways to the same numbers; this is the exact one.
Error _cdist_forward(const Kernels& kernels, const SlimTensor& x1, const SlimTensor& x2, double p,
                     std::optional<int64_t>, TensorPtr& out) {
  PTERON_RETURN_IF_ERROR(check(x1, p));
  PTERON_CHECK_OR_RETURN(x1.dim() >= 2 && x2.dim() >= 2 && x1.dtype() == x2.dtype() &&
                             x1.size(x1.dim() - 1) == x2.size(x2.dim() - 1),
                         Error::InvalidArgument,
                         "found x1 %s, x2 %s, expected one dtype, 2 or more dimensions and equal "
                         "last sizes",
                         x1.describe().c_str(), x2.describe().c_str());
  int64_t sizes[slim::kMaxDims];
  const size_t rank = std::max(x1.dim(), x2.dim());
  for (size_t i = 3; i <= rank; ++i) {  // from the back
    const int64_t a = i <= x1.dim() ? x1.size(x1.dim() - i) : 1,
                  b = i <= x2.dim() ? x2.size(x2.dim() - i) : 1;
    PTERON_CHECK_OR_RETURN(a == b || a == 1 || b == 1, Error::InvalidArgument,
                           "found x1 %s, x2 %s, expected batches that broadcast",
                           x1.describe().c_str(), x2.describe().c_str());
    sizes[rank - i] = a == 1 ? b : a;
  }
  SlimTensor left, right;
  PTERON_RETURN_IF_ERROR(expand(x1, Span<const int64_t>(sizes, rank - 2), &left));
  PTERON_RETURN_IF_ERROR(expand(x2, Span<const int64_t>(sizes, rank - 2), &right));
  sizes[rank - 2] = left.size(rank - 2);
  sizes[rank - 1] = right.size(rank - 2);
  PTERON_ASSIGN_OR_RETURN(
      out, make_row_major(Span<const int64_t>(sizes, rank), x1.dtype(), x1.device()));
  return kernels.distance({left, right, p, false, *out});
}

Error _pdist_forward(const Kernels& kernels, const SlimTensor& self, double p, TensorPtr& out) {
  PTERON_RETURN_IF_ERROR(check(self, p));
  PTERON_CHECK_OR_RETURN(self.dim() == 2, Error::InvalidArgument,
                         "found self %s, expected 2 dimensions", self.describe().c_str());
  const int64_t rows = self.size(0), pairs = rows * (rows - 1) / 2;
  PTERON_ASSIGN_OR_RETURN(
      out, make_row_major(Span<const int64_t>(&pairs, 1), self.dtype(), self.device()));
  return kernels.distance({self, self, p, true, *out});
}

}  // namespace pteron::aoti::ops
