#include "pteron/backends/cuda/runtime/cuda_stream.h"

#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"

namespace pteron::cuda {

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
         status != cudaStreamCaptureStatusNone;
}

MethodStream::MethodStream(int device, cudaStream_t own, cudaEvent_t event)
    : device_(device), own_(own), event_(event), last_(own), pool_(CachingPool::create(device)) {}

Result<std::shared_ptr<MethodStream>> MethodStream::make(int device) {
  PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device));
  cudaStream_t stream = nullptr;
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamCreate(&stream), "creating a stream");
  cudaEvent_t event = nullptr;
  const cudaError_t status = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (status != cudaSuccess) {
    (void)cudaStreamDestroy(stream);
    return cuda_error(status, "creating an event");
  }
  return std::shared_ptr<MethodStream>(new MethodStream(device, stream, event));
}

MethodStream::~MethodStream() {
  (void)synchronize();
  workspace_.storage = {};
  pool_->release();
  // The pool of the method's outputs.
  CachingPool::trim_streams(device_);
  Result<slim::CudaGuard> guard = slim::CudaGuard::make(device_);
  if (!guard.ok()) return;
  (void)cudaEventDestroy(event_);
  (void)cudaStreamDestroy(own_);
  if (capture_stream_) (void)cudaStreamDestroy(capture_stream_);
}

std::shared_ptr<CachingPool> MethodStream::graph_pool() {
  std::shared_ptr<CachingPool> pool = graph_pool_.lock();
  if (!pool) {
    CachingPool::Options options;
    options.keeps_blocks = true;
    pool.reset(CachingPool::create(device_, options), [](CachingPool* p) { p->release(); });
    graph_pool_ = pool;
  }
  return pool;
}

Result<cudaStream_t> MethodStream::capture_stream() {
  if (!capture_stream_) {
    // Non-blocking: work on the default stream must not become part of the graph.
    PTERON_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&capture_stream_, cudaStreamNonBlocking),
                                "creating a stream");
  }
  return capture_stream_;
}

void MethodStream::trim() {
  if (!was_captured_) pool_->trim();
}

Result<cudaStream_t> MethodStream::begin() {
  const cudaStream_t current = slim::current_cuda_stream(device_);
  const cudaStream_t stream = current ? current : own_;
  if (__builtin_expect(stream == last_, 1)) return stream;
  PTERON_RETURN_IF_ERROR(change_to(stream));
  last_ = stream;
  return stream;
}

Error MethodStream::change_to(cudaStream_t stream) {
  if (captured_ || is_capturing(stream)) return Error::Ok;
  if (last_ == own_) {
    PTERON_CUDA_RETURN_IF_ERROR(cudaEventRecord(event_, own_), "changing the stream of a method");
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(stream, event_, 0),
                              "changing the stream of a method");
  return Error::Ok;
}

void MethodStream::end(cudaStream_t stream) noexcept {
  if (stream == own_) {
    captured_ = false;
    return;
  }
  captured_ = is_capturing(stream);
  was_captured_ = was_captured_ || captured_;
  if (!captured_) (void)cudaEventRecord(event_, stream);
}

Error MethodStream::synchronize() {
  PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device_));
  if (last_ != own_ && !captured_) {
    PTERON_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(event_), "waiting for a method");
  }
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(own_), "waiting for a method");
  return Error::Ok;
}

}  // namespace pteron::cuda
