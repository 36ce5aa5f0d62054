// What is known to be wrong with code that earlier versions of the lowering generated.
//
//   for (const LoweringFault& fault : lowering_faults(metadata)) report(fault.what);
//
// backends/aoti/payload.py says which version a file is of; CHANGELOG.md says more about each
// fault.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pteron/backends/aoti/runtime/metadata.h"

namespace pteron::aoti {

struct LoweringFault {
  uint32_t fixed_in;                // the first version of the lowering without it
  std::string_view device;          // whose code has it
  std::string_view weights_layout;  // and with which layout of weights; empty: any
  std::string_view what;            // a clause: "products with parts of parameters may be wrong"
};

// Those that code described by `metadata` may have; the program need not be one that shows them.
std::vector<LoweringFault> lowering_faults(const Metadata& metadata);

}  // namespace pteron::aoti
