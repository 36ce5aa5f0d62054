#include "pteron/runtime/trust/pteron_trust.h"

#include <utility>

#include "pteron/runtime/c_api.h"
#include "pteron/runtime/trust/load_policy.h"

using namespace pteron;

namespace {

Result<LoadPolicy> read_policy(const pteron_load_policy* given) {
  PTERON_CHECK_OR_RETURN(given, Error::InvalidArgument, "`policy` is null");
  const bool unsigned_is_flag = given->allow_unsigned == 0 || given->allow_unsigned == 1;
  PTERON_CHECK_OR_RETURN(
      unsigned_is_flag && given->padding == 0 && given->reserved == 0, Error::InvalidArgument,
      "pteron_load_policy: `allow_unsigned` is %d, expected 0 or 1, or a reserved "
      "field is not 0; set the whole structure to zero first",
      given->allow_unsigned);
  PTERON_CHECK_OR_RETURN(given->trusted_keys || given->trusted_keys_size == 0,
                         Error::InvalidArgument, "`trusted_keys` is null");
  LoadPolicy policy;
  for (size_t i = 0; i < given->trusted_keys_size; ++i) {
    PTERON_CHECK_OR_RETURN(given->trusted_keys[i], Error::InvalidArgument,
                           "`trusted_keys[%zu]` is null", i);
    policy.trusted_keys.emplace_back(given->trusted_keys[i]);
  }
  policy.required = given->allow_unsigned == 0;
  policy.minimum_version = given->minimum_version;
  return policy;
}

}  // namespace

pteron_status pteron_load_trusted(const char* path, const pteron_load_options* options,
                                  const pteron_load_policy* policy, pteron_module** module) {
  const auto trusted = [&](LoadOptions load) -> Result<LoadOptions> {
    PTERON_ASSIGN_OR_RETURN(const LoadPolicy read, read_policy(policy));
    return trusted_options(read, path, std::move(load));
  };
  return load_for_c(path, options, trusted, module);
}
