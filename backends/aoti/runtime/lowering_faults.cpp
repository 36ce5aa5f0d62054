#include "pteron/backends/aoti/runtime/lowering_faults.h"

#include <algorithm>
#include <iterator>

namespace pteron::aoti {
namespace {

constexpr char kMasked[] =
    "what was computed from a view of a tensor before an assignment to it under a mask may have "
    "been computed from what was assigned";

constexpr LoweringFault kFaults[] = {
    {1, "cpu", "packed",
     "matmuls and 1x1 convolutions with a part of a parameter that does not begin at its "
     "first element use the wrong weights, and convolutions whose results are scaled may have "
     "each other's factors"},
    {2, "cpu", "packed",
     "linear layers of transposed tensors whose first dimension is dynamic, as behind attention, "
     "are wrong for more batches than the example inputs had"},
    {1, "cpu", "",
     "some reductions of rows whose length is no multiple of a vector's, of 8-bit integers, and "
     "indices of extremes in transposed tensors may be wrong"},
    {3, "cpu", "", kMasked},
    {3, "cuda", "", kMasked},
    {3, "cpu", "", "Fourier transforms of transposed tensors are wrong if torch was 2.11"},
};

}  // namespace

std::vector<LoweringFault> lowering_faults(const Metadata& metadata) {
  std::vector<LoweringFault> found;
  std::copy_if(
      std::begin(kFaults), std::end(kFaults), std::back_inserter(found),
      [&](const LoweringFault& fault) {
        return metadata.lowering_version < fault.fixed_in && metadata.device == fault.device &&
               (fault.weights_layout.empty() || metadata.weights_layout == fault.weights_layout);
      });
  return found;
}

}  // namespace pteron::aoti
