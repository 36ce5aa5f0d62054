// What a library put on a stream in one call, to put there again without asking the library.
//
//   const auto call = [&](cudaStream_t s) { return blas->lt_matmul(..., s) == 0; };
//   std::unique_ptr<RecordedLaunch> recorded = RecordedLaunch::record(side_stream, call);
//   if (recorded) PTERON_RETURN_IF_ERROR(recorded->launch(stream));   // costs bare launches
//
// The call is captured into a CUDA graph that never runs; its kernels are taken from there, and
// what it sets to zero. To launch them is what replaying that graph would be, and is right wherever
// a replay is: the addresses and the numbers of the call are part of it.
//
// While something is recorded, nobody may wait for the whole device: in another thread
// cudaDeviceSynchronize (and what is made of it, as torch.cuda.synchronize) fails with
// cudaErrorStreamCaptureUnsupported, as CUDA documents of any capture, and the driver has been seen
// to crash (580.159). So recording is for callers who were told that they may.
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
  // Captures what `call` puts on `side`, a stream that nobody else uses, of the current device;
  // nothing of it is run. `call` returns whether it succeeded. Null if that is anything but a chain
  // of kernels and zeroed bytes, or if capturing fails.
  static std::unique_ptr<RecordedLaunch> record(cudaStream_t side,
                                                const std::function<bool(cudaStream_t)>& call);

  // On a stream of the same device, which may be one that is being captured. Thread-safe.
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
