#include "pteron/backends/aoti/ops/histogram/histogram.h"

#include <algorithm>
#include <cmath>

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

Error histc(const Kernels& kernels, const SlimTensor& self, int64_t bins, double min, double max,
            TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(slim::is_floating_point(self.dtype()), Error::InvalidType,
                         "found self %s, expected floating-point numbers", self.describe().c_str());
  PTERON_CHECK_OR_RETURN(
      bins > 0 && min <= max && std::isfinite(min) && std::isfinite(max), Error::InvalidArgument,
      "found %lld bins from %g to %g, expected at least one and a rising finite range",
      static_cast<long long>(bins), min, max);
  PTERON_ASSIGN_OR_RETURN(out, make_row_major({&bins, 1}, self.dtype(), self.device()));
  return kernels.histogram({self, min, max, *out});
}

Error bincount(const Kernels& kernels, const SlimTensor& self, const SlimTensor* weights,
               int64_t minlength, TensorPtr& out) {
  const DType dtype = self.dtype();
  PTERON_CHECK_OR_RETURN(self.dim() == 1 && dtype != DType::Bool && !slim::is_complex(dtype) &&
                             !slim::is_floating_point(dtype) && minlength >= 0,
                         Error::InvalidArgument,
                         "found self %s and minlength %lld, expected integers of one dimension and "
                         "no negative length",
                         self.describe().c_str(), static_cast<long long>(minlength));
  if (weights) {
    PTERON_CHECK_OR_RETURN(weights->dim() == 1 && weights->size(0) == self.size(0) &&
                               !slim::is_complex(weights->dtype()),
                           Error::InvalidArgument,
                           "found weights %s, expected a real one for each element of %s",
                           weights->describe().c_str(), self.describe().c_str());
  }
  if (self.numel() > 0) {
    int64_t low = 0, high = 0;
    PTERON_RETURN_IF_ERROR(kernels.range({self, low, high}));
    PTERON_CHECK_OR_RETURN(low >= 0 && high < INT64_MAX, Error::InvalidArgument,
                           "found numbers from %lld to %lld in self, expected none below 0",
                           static_cast<long long>(low), static_cast<long long>(high));
    minlength = std::max(minlength, high + 1);
  }
  const DType type = !weights                           ? DType::Long
                     : weights->dtype() == DType::Float ? DType::Float
                                                        : DType::Double;
  PTERON_ASSIGN_OR_RETURN(out, make_row_major({&minlength, 1}, type, self.device()));
  return kernels.count({self, weights, *out});
}

}  // namespace pteron::aoti::ops
