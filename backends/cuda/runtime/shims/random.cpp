#include "pteron/backends/aoti/ops/random/random.h"

#include "pteron/backends/aoti/ops/scan/scan.h"
#include "pteron/backends/cuda/runtime/kernels/capture.h"
#include "pteron/backends/cuda/runtime/kernels/random.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error scan(const aoti::ScanCall& call);  // scan.cu

namespace {

Result<RandomDraw> next_draw(cudaStream_t stream) {
  PTERON_RETURN_IF_ERROR(refuse_during_capture("random numbers", "each run draws others", stream));
  return RandomSequence::of_process().next();
}

}  // namespace

Error random_integers(const aoti::RandomIntegersCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  PTERON_ASSIGN_OR_RETURN(const RandomDraw draw, next_draw(scope.stream()));
  return fill_random(draw, call.low, call.high, type_of(call.out), call.out.data(),
                     call.out.numel(), scope.stream());
}

Error random_permutation(const aoti::PermutationCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  PTERON_ASSIGN_OR_RETURN(const RandomDraw draw, next_draw(scope.stream()));
  return permute_random(draw, type_of(call.out), call.out.data(), call.out.numel(), scope.device(),
                        scope.stream());
}

Error multinomial(const aoti::MultinomialCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr x, slim::contiguous_tensor(call.self));
  const RandomChoice choice{type_of(*x),   x->data(),    call.rows(),
                            call.length(), call.count(), call.replacement};
  PTERON_ASSIGN_OR_RETURN(const RandomDraw draw, next_draw(scope.stream()));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr numbers,
                          aoti::make_row_major(x->sizes(), DType::Double, x->device()));
  if (choice.replacement) {
    PTERON_RETURN_IF_ERROR(
        scan({aoti::ScanCall::Kind::kSum, *x, x->dim() - 1, *numbers, /*indices=*/nullptr}));
  }
  return choose_random(draw, choice, numbers->data_as<double>(), call.out.data_as<int64_t>(),
                       scope.device(), scope.stream());
}

}  // namespace pteron::cuda
