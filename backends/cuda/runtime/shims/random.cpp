#include "pteron/backends/aoti/ops/random.h"

#include "pteron/backends/cuda/runtime/kernels/random.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error random_integers(const aoti::RandomIntegersCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  return fill_random(RandomSequence::of_process().next(), call.low, call.high, type_of(call.out),
                     call.out.data(), call.out.numel(), scope.stream());
}

Error random_permutation(const aoti::PermutationCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  return permute_random(RandomSequence::of_process().next(), type_of(call.out), call.out.data(),
                        call.out.numel(), scope.device(), scope.stream());
}

Error multinomial(const aoti::MultinomialCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, slim::contiguous_tensor(call.self));
  const RandomChoice choice{type_of(*x),   x->data(),    call.rows(),
                            call.length(), call.count(), call.replacement};
  return choose_random(RandomSequence::of_process().next(), choice, call.out.data_as<int64_t>(),
                       scope.device(), scope.stream());
}

}  // namespace pteron::cuda
