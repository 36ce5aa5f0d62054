// The keys of a delegate's blobs, from its processed bytes.
//
//   PTERON_ASSIGN_OR_RETURN(const std::vector<PayloadKeys> variants, PayloadKeys::parse(processed));
//   named_data.get_verified(variants.front().metadata());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

struct PayloadKeys {
  std::string code;     // key of the shared object
  std::string weights;  // key of the constants that have no own blob

  // Key of the metadata; files of other writers have no such blob.
  std::string metadata() const { return code + "/" + weights + "/metadata"; }

  // The keys of each variant, one or more in ascending ISA level. Parses lines "<code
  // key>\n<weights key>" per variant, with an optional final newline; InvalidProgram otherwise.
  static Result<std::vector<PayloadKeys>> parse(Span<const uint8_t> processed);
};

}  // namespace pteron::aoti
