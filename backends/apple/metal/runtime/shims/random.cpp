// Random numbers from the host: seeds for compiled kernels, and rare operators.
#include "pteron/backends/aoti/ops/random/random.h"

#include "pteron/backends/aoti/ops/on_host/on_host.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {

Error random_integers(const aoti::RandomIntegersCall& call) {
  PTERON_RETURN_IF_ERROR(wait_for_device());
  return aoti::on_host::random_integers(call);
}

Error random_permutation(const aoti::PermutationCall& call) {
  PTERON_RETURN_IF_ERROR(wait_for_device());
  return aoti::on_host::random_permutation(call);
}

Error multinomial(const aoti::MultinomialCall& call) {
  PTERON_RETURN_IF_ERROR(wait_for_device());
  return aoti::on_host::multinomial(call);
}

}  // namespace pteron::metal
