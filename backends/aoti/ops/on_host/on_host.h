// Kernels on the host, for devices whose memory the host can read and write. Their callers wait for
// the device first.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/error.h"

namespace pteron::aoti {

struct MultinomialCall;
struct PermutationCall;
struct RandomIntegersCall;
struct RangeCall;

namespace on_host {

// Random numbers: a stream for each call, seeded by the OS. Thread-safe. InvalidArgument for a row
// of `multinomial` that has no probabilities.
Error random_integers(const RandomIntegersCall& call);
Error random_permutation(const PermutationCall& call);
Error multinomial(const MultinomialCall& call);

Error range(const RangeCall& call);
Error nonzero(const slim::SlimTensor& self, slim::TensorPtr& coordinates);

}  // namespace on_host
}  // namespace pteron::aoti
