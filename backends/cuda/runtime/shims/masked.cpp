#include "pteron/backends/aoti/ops/masked/masked.h"

#include "pteron/backends/cuda/runtime/kernels/masked.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error masked_scatter(const aoti::MaskedScatterCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  return masked_scatter(call.out.item_size(), call.out.data(), call.mask.data_as<const bool>(),
                        call.out.numel(), call.source.data(), call.source.numel(), scope.device(),
                        scope.stream());
}

}  // namespace pteron::cuda
