// --trusted_keys, in the runner that can verify signatures and in the one that cannot.
#pragma once

#include "pteron/runtime/core/result.h"
#include "pteron/tools/runner/arguments.h"

namespace pteron::runner {

// `arguments.load`, under the policy of the command line.
Result<LoadOptions> load_options(const Arguments& arguments);

}  // namespace pteron::runner
