// Measures the kernels of a traced run with pairs of CUDA events, on the stream of the run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "pteron/backends/aoti/runtime/kernel_trace.h"

namespace pteron::cuda {

class CudaKernelTimer final : public aoti::KernelTimer {
 public:
  // Waits for `stream`, so that the device's clock can be related to the host's.
  explicit CudaKernelTimer(cudaStream_t stream);
  ~CudaKernelTimer() override;

  void begin(uint64_t event) override;
  void end() override;
  // Without effect if a function of CUDA has failed.
  void report(EventTracer& tracer) override;

 private:
  struct Launch {
    uint64_t event;
    int64_t host_ns;  // of begin()
    cudaEvent_t before = nullptr, after = nullptr;
  };

  cudaEvent_t record();

  const cudaStream_t stream_;
  bool has_failed_ = false;
  cudaEvent_t origin_ = nullptr;
  int64_t origin_ns_ = 0;
  std::vector<Launch> launches_;
};

}  // namespace pteron::cuda
