#include "pteron/backends/cuda/runtime/cuda_kernel_timer.h"

#include <chrono>
#include <cstdio>

namespace pteron::cuda {
namespace {

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

CudaKernelTimer::CudaKernelTimer(cudaStream_t stream) : stream_(stream) {
  has_failed_ = cudaStreamSynchronize(stream_) != cudaSuccess;
  origin_ = record();
  if (!has_failed_) has_failed_ = cudaEventSynchronize(origin_) != cudaSuccess;
  origin_ns_ = now();
}

CudaKernelTimer::~CudaKernelTimer() {
  if (origin_) (void)cudaEventDestroy(origin_);
  for (const Launch& launch : launches_) {
    if (launch.before) (void)cudaEventDestroy(launch.before);
    if (launch.after) (void)cudaEventDestroy(launch.after);
  }
}

cudaEvent_t CudaKernelTimer::record() {
  cudaEvent_t event = nullptr;
  if (has_failed_) return event;
  has_failed_ = cudaEventCreate(&event) != cudaSuccess;
  if (!has_failed_) has_failed_ = cudaEventRecord(event, stream_) != cudaSuccess;
  return event;
}

void CudaKernelTimer::begin(uint64_t event) {
  launches_.push_back({event, now()});
  launches_.back().before = record();
}

void CudaKernelTimer::end() { launches_.back().after = record(); }

void CudaKernelTimer::report(EventTracer& tracer) {
  if (has_failed_ || cudaStreamSynchronize(stream_) != cudaSuccess) return;
  char name[64];
  std::snprintf(name, sizeof(name), "CUDA stream %p", static_cast<void*>(stream_));
  for (const Launch& launch : launches_) {
    float start_ms = 0, duration_ms = 0;
    if (cudaEventElapsedTime(&start_ms, origin_, launch.before) != cudaSuccess) return;
    if (cudaEventElapsedTime(&duration_ms, launch.before, launch.after) != cudaSuccess) return;
    const int64_t start_ns = origin_ns_ + static_cast<int64_t>(start_ms * 1e6) - launch.host_ns;
    tracer.record_on_device(launch.event, start_ns, static_cast<int64_t>(duration_ms * 1e6), name);
  }
}

}  // namespace pteron::cuda
