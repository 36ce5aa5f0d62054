#include <fstream>
#include <iterator>

#include "pteron/runtime/trust/load_policy.h"
#include "pteron/tools/runner/arguments.h"

namespace pteron::runner {

Result<LoadOptions> load_options(const Arguments& arguments) {
  if (arguments.trusted_keys.empty()) return arguments.load;
  LoadPolicy policy;
  policy.required = !arguments.allow_unsigned;
  policy.minimum_version = arguments.minimum_version;
  for (const std::string& path : arguments.trusted_keys) {
    std::ifstream file(path, std::ios::binary);
    PTERON_CHECK_OR_RETURN(file, Error::NotFound, "--trusted_keys: cannot read %s", path.c_str());
    policy.trusted_keys.emplace_back(std::istreambuf_iterator<char>(file),
                                     std::istreambuf_iterator<char>());
  }
  return trusted_options(policy, arguments.program, arguments.load);
}

}  // namespace pteron::runner
