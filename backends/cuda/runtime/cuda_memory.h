// What the shims of all devices need of CUDA: storage, copies, zeros.
//
// Work goes to the calling thread's current stream of the tensor's device. Storage is an
// output buffer that the open ExecutionScope offers, or comes from its pool, or else from that of
// the current stream. Registered for DeviceType::CUDA when this library is opened.
#pragma once

#include "pteron/backends/aoti/slim/core/device_memory.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/cuda/runtime/kernels/strided_copy.h"

namespace pteron::cuda {

class CudaMemory final : public slim::DeviceMemory {
 public:
  Result<slim::StorageRef> allocate(size_t nbytes, Device device) override;
  Result<slim::StorageRef> allocate_pinned(size_t nbytes) override;
  // Between the host and a device, tensors of unlike strides are made contiguous on the way.
  // Between two devices both must be contiguous (NotSupported otherwise).
  Error copy(const slim::SlimTensor& target, const slim::SlimTensor& source,
             bool non_blocking) override;
  Error zero(const slim::SlimTensor& tensor) override;
};

// The process's one, registered.
CudaMemory& cuda_memory();

// The copy of every element of `source` to `target`, of equal sizes. `source` may be null for
// zeros.
StridedCopy elementwise_copy(const slim::SlimTensor& target, const slim::SlimTensor* source);

}  // namespace pteron::cuda
