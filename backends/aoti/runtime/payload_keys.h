// The keys of a delegate's blobs, as lowering left them in the delegate's processed bytes.
//
//   PTERON_ASSIGN_OR_RETURN(const PayloadKeys keys, PayloadKeys::parse(processed));
//   named_data.get_verified(keys.metadata());
#pragma once

#include <cstdint>
#include <string>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

struct PayloadKeys {
  std::string code;     // of the shared object
  std::string weights;  // of the constants that have no blob of their own

  // Of what is known beside the code; a file of another writer has no such blob.
  std::string metadata() const { return code + "/" + weights + "/metadata"; }

  // From "<code key>\n<weights key>", perhaps with a last newline; InvalidProgram for anything
  // else.
  static Result<PayloadKeys> parse(Span<const uint8_t> processed);
};

}  // namespace pteron::aoti
