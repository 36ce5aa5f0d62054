#include "pteron/backends/aoti/ops/search/search.h"

#include <algorithm>
#include <cstring>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/promotion.h"

namespace pteron::aoti::ops {

Error searchsorted_Tensor(const Kernels& kernels, const SlimTensor& sequence,
                          const SlimTensor& self, bool out_int32, bool right, const char* side,
                          const SlimTensor* sorter, TensorPtr& out) {
  PTERON_RETURN_IF_ERROR(check_ordered(sequence));
  PTERON_RETURN_IF_ERROR(check_ordered(self));
  if (side) {
    const bool is_right = std::strcmp(side, "right") == 0;
    PTERON_CHECK_OR_RETURN(
        is_right || (std::strcmp(side, "left") == 0 && !right), Error::InvalidArgument,
        "found side %s and right %d, expected left or right, and not left with right", side, right);
    right = is_right;
  }
  const Span<const int64_t> sizes = self.sizes(), rows = sequence.sizes();
  const bool fits = rows.size() == 1 || (rows.size() == sizes.size() && !rows.empty() &&
                                         std::equal(sizes.begin(), sizes.end() - 1, rows.begin()));
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument,
                         "found self %s, sorted sequence %s, expected a sequence of one dimension, "
                         "or of the sizes of self but the last",
                         self.describe().c_str(), sequence.describe().c_str());
  if (sorter) {
    PTERON_CHECK_OR_RETURN(
        sorter->dtype() == DType::Long && has_sizes(*sorter, rows), Error::InvalidArgument,
        "found sorter %s, sorted sequence %s, expected int64 numbers and equal sizes",
        sorter->describe().c_str(), sequence.describe().c_str());
  }
  PTERON_ASSIGN_OR_RETURN(
      out, make_row_major(sizes, out_int32 ? DType::Int : DType::Long, self.device()));
  return kernels.search({sequence, sorter, self, result_type(sequence, self), right, *out});
}

Error bucketize_Tensor(const Kernels& kernels, const SlimTensor& self, const SlimTensor& boundaries,
                       bool out_int32, bool right, TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(boundaries.dim() == 1, Error::InvalidArgument,
                         "found boundaries %s, expected one dimension",
                         boundaries.describe().c_str());
  return searchsorted_Tensor(kernels, boundaries, self, out_int32, right, nullptr, nullptr, out);
}

}  // namespace pteron::aoti::ops
