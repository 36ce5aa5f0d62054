// Known bugs of code that earlier versions of the lowering generated.
//
//   for (const LoweringFault& fault : lowering_faults(metadata)) report(fault.what);
//
// backends/aoti/payload.py defines the version of a file; CHANGELOG.md describes each bug.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pteron/backends/aoti/runtime/metadata.h"

namespace pteron::aoti {

struct LoweringFault {
  uint32_t fixed_in;                // the first version of the lowering without it
  std::string_view device;          // affected device
  std::string_view weights_layout;  // affected weight layout; empty: any
  std::string_view what;            // a clause: "matmuls with parts of parameters may be wrong"
};

// Bugs that code with this `metadata` may have; a program is not necessarily affected.
std::vector<LoweringFault> lowering_faults(const Metadata& metadata);

}  // namespace pteron::aoti
