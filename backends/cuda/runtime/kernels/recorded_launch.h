// Records the kernels that a library call launches, to launch them again without the library.
//
//   const auto call = [&](cudaStream_t s) { return blas->lt_matmul(..., s) == 0; };
//   std::unique_ptr<RecordedLaunch> recorded = RecordedLaunch::record(side_stream, call);
//   if (recorded) PTERON_RETURN_IF_ERROR(recorded->launch(stream));   // only the launches
//
// The call is captured into a CUDA graph that never runs; its kernel and memset nodes are
// extracted. Launching them is equivalent to replaying the graph: the call's addresses and scalars
// are part of it.
//
// During a recording no thread may synchronize the device: cudaDeviceSynchronize (and
// torch.cuda.synchronize) in another thread fails with cudaErrorStreamCaptureUnsupported, as
// documented for any capture, and a driver (580.159) was seen to crash. So recording is opt-in.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "pteron/backends/cuda/runtime/platform/driver.h"
#include "pteron/runtime/core/error.h"

namespace pteron::cuda {

class RecordedLaunch final {
 public:
  // Captures what `call` puts on `side`, an otherwise unused stream of the current device, without
  // running it. `call` returns whether it succeeded. Null if the capture fails or is not a chain of
  // kernels and zeroing memsets.
  static std::unique_ptr<RecordedLaunch> record(cudaStream_t side,
                                                const std::function<bool(cudaStream_t)>& call);

  // On a stream of the same device, which may be in capture. Thread-safe.
  Error launch(cudaStream_t stream) const;

  size_t num_launches() const { return steps_.size(); }

 private:
  struct Step {
    void* zeroed = nullptr;  // instead of a kernel
    size_t zeroed_nbytes = 0;
    CUfunction function = nullptr;
    CUlaunchConfig config{};  // without stream and attributes
    std::array<CUlaunchAttribute, 5> attributes{};
    std::vector<unsigned char> arguments;
  };

  explicit RecordedLaunch(const Driver* driver) : driver_(driver) {}
  bool take(cudaGraph_t graph);
  bool add(cudaGraphNode_t node, bool overlaps_previous);
  bool add_kernel(cudaGraphNode_t node, bool overlaps_previous);
  bool add_zeroes(cudaGraphNode_t node);
  Error launch_kernel(const Step& step, cudaStream_t stream) const;

  const Driver* driver_;
  std::vector<Step> steps_;  // in order
};

}  // namespace pteron::cuda
