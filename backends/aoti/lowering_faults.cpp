#include "backends/aoti/lowering_faults.h"

#include <algorithm>
#include <iterator>

namespace pteron::aoti {
namespace {

constexpr LoweringFault kFaults[] = {
    {1, "cpu", "packed",
     "matrix products and 1x1 convolutions with a part of a parameter that does not begin at its "
     "first element use the wrong weights"},
};

}  // namespace

std::vector<LoweringFault> lowering_faults(const Metadata& metadata) {
  std::vector<LoweringFault> found;
  std::copy_if(std::begin(kFaults), std::end(kFaults), std::back_inserter(found),
               [&](const LoweringFault& fault) {
                 return metadata.lowering_version < fault.fixed_in &&
                        metadata.device == fault.device &&
                        metadata.weights_layout == fault.weights_layout;
               });
  return found;
}

}  // namespace pteron::aoti
