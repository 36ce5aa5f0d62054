#include "pteron/backends/aoti/ops/pooling.h"

#include "pteron/backends/cuda/runtime/kernels/pooling.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"
#include "pteron/backends/cuda/runtime/shims/kernels.h"

namespace pteron::cuda {

Error pool(const aoti::PoolingCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.self));
  return pool_windows(call.windows, static_cast<ScalarType>(call.self.dtype()), call.self.data(),
                      call.out.data(), call.indices ? call.indices->data_as<int64_t>() : nullptr,
                      scope.stream());
}

}  // namespace pteron::cuda
