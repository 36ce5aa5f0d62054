#include "pteron/backends/aoti/ops/random/random.h"

#include "pteron/backends/aoti/ops/on_host/on_host.h"

namespace pteron::cpu {

Error random_integers(const aoti::RandomIntegersCall& call) {
  return aoti::on_host::random_integers(call);
}

Error random_permutation(const aoti::PermutationCall& call) {
  return aoti::on_host::random_permutation(call);
}

Error multinomial(const aoti::MultinomialCall& call) { return aoti::on_host::multinomial(call); }

}  // namespace pteron::cpu
