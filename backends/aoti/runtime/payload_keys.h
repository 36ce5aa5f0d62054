// The keys of a delegate's blobs, as lowering left them in the delegate's processed bytes.
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
  std::string code;     // of the shared object
  std::string weights;  // of the constants that have no blob of their own

  // Of what is known beside the code; a file of another writer has no such blob.
  std::string metadata() const { return code + "/" + weights + "/metadata"; }

  // Of each variant of the code, one or more in ascending ISA level. From lines,
  // "<code key>\n<weights key>" for each, perhaps with a last newline; InvalidProgram for anything
  // else.
  static Result<std::vector<PayloadKeys>> parse(Span<const uint8_t> processed);
};

}  // namespace pteron::aoti
