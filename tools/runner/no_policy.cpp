#include "pteron/tools/runner/arguments.h"

namespace pteron::runner {

Result<LoadOptions> load_options(const Arguments& arguments) {
  PTERON_CHECK_OR_RETURN(arguments.trusted_keys.empty(), Error::NotSupported,
                         "--trusted_keys: this runner has no crypto library; build "
                         "//tools/runner:verifying_runner");
  return arguments.load;
}

}  // namespace pteron::runner
