#include "pteron/backends/aoti/ops/pooling/pooling.h"

#include "pteron/backends/cuda/runtime/kernels/pooling.h"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {

Error pool(const aoti::PoolingCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  return pool_windows(call.windows, type_of(call.self), call.self.data(), call.out.data(),
                      call.indices ? call.indices->data_as<int64_t>() : nullptr, scope.stream());
}

}  // namespace pteron::cuda
