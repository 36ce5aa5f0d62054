#include "pteron/backends/cuda/runtime/kernels/blas_context.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "pteron/backends/cuda/runtime/blas_workspace.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

constexpr size_t kHopperWorkspaceNbytes = size_t{32} << 20;
constexpr size_t kWorkspaceNbytes = size_t{8} << 20;
// Streams per thread and device before the oldest workspace is freed.
constexpr size_t kMaxWorkspaces = 16;

Error refuse_during_capture(cudaStream_t stream, const char* what) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamIsCapturing(stream, &status), "querying stream capture");
  PTERON_CHECK_OR_RETURN(status == cudaStreamCaptureStatusNone, Error::InvalidState,
                         "%s while the stream is being captured; run once before capturing", what);
  return Error::Ok;
}

}  // namespace

thread_local BlasWorkspace* BlasWorkspace::current_ = nullptr;

BlasWorkspace::BlasWorkspace()
    : id_([] {
        static std::atomic<uint64_t> last{0};
        return ++last;
      }()) {}

// The contexts of one thread, and the idle ones of threads that ended.
class BlasContexts final {
 public:
  ~BlasContexts() {
    std::lock_guard<std::mutex> lock(idle_mutex());
    for (auto& [device, context] : by_device_) idle()[device].push_back(context);
  }

  BlasContext* find(int device) const {
    for (const auto& [index, context] : by_device_) {
      if (index == device) return context;
    }
    return nullptr;
  }

  Result<BlasContext*> add(int device) {
    BlasContext* context = nullptr;
    {
      std::lock_guard<std::mutex> lock(idle_mutex());
      auto& waiting = idle()[device];
      if (!waiting.empty()) {
        context = waiting.back();
        waiting.pop_back();
      }
    }
    if (context == nullptr) {
      PTERON_ASSIGN_OR_RETURN(context, BlasContext::make(device));
    }
    by_device_.emplace_back(device, context);
    return context;
  }

 private:
  // Never destroyed: threads may outlive static destructors.
  static std::map<int, std::vector<BlasContext*>>& idle() {
    static auto* contexts = new std::map<int, std::vector<BlasContext*>>();
    return *contexts;
  }
  static std::mutex& idle_mutex() {
    static auto* mutex = new std::mutex();
    return *mutex;
  }

  std::vector<std::pair<int, BlasContext*>> by_device_;
};

Error blas_error(const Cublas& api, cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return Error::Ok;
  const Error::Code code = status == CUBLAS_STATUS_ALLOC_FAILED    ? Error::MemoryAllocationFailed
                           : status == CUBLAS_STATUS_NOT_SUPPORTED ? Error::NotSupported
                                                                   : Error::AccessFailed;
  return make_error(code, "%s: %s", what, api.status_string(status));
}

Result<BlasContext*> BlasContext::make(int device) {
  PTERON_ASSIGN_OR_RETURN(const Cublas* api, Cublas::get());
  int major = 0;
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
      "reading the compute capability");
  std::unique_ptr<BlasContext> context(new BlasContext());
  context->api_ = api;
  context->device_ = device;
  context->workspace_nbytes_ = major >= 9 ? kHopperWorkspaceNbytes : kWorkspaceNbytes;
  PTERON_RETURN_IF_ERROR(
      blas_error(*api, api->create(&context->handle_), "creating a cuBLAS handle"));
  return context.release();
}

Result<void*> BlasContext::workspace_for(cudaStream_t stream) {
  if (BlasWorkspace* own = BlasWorkspace::current()) {
    if (!own->storage) {
      PTERON_RETURN_IF_ERROR(refuse_during_capture(stream, "allocating a cuBLAS workspace"));
      PTERON_ASSIGN_OR_RETURN(own->storage, allocate_scratch(workspace_nbytes_, device_));
    }
    return own->storage->data;
  }
  for (const Workspace& candidate : workspaces_) {
    if (candidate.stream == stream) return candidate.data;
  }
  PTERON_RETURN_IF_ERROR(refuse_during_capture(stream, "allocating a cuBLAS workspace"));
  if (workspaces_.size() == kMaxWorkspaces) {
    // cudaFree synchronizes the device, so nothing still uses it.
    PTERON_CUDA_RETURN_IF_ERROR(cudaFree(workspaces_.front().data), "freeing a workspace");
    workspaces_.erase(workspaces_.begin());
  }
  void* workspace = nullptr;
  PTERON_CUDA_RETURN_IF_ERROR(cudaMalloc(&workspace, workspace_nbytes_),
                              "allocating a cuBLAS workspace");
  workspaces_.push_back({stream, workspace});
  return workspace;
}

Error BlasContext::use(cudaStream_t stream) {
  has_stream_ = false;  // until all calls succeeded
  PTERON_ASSIGN_OR_RETURN(void* workspace, workspace_for(stream));
  PTERON_RETURN_IF_ERROR(
      blas_error(*api_, api_->set_stream(handle_, stream), "setting the stream of cuBLAS"));
  PTERON_RETURN_IF_ERROR(blas_error(*api_,
                                    api_->set_workspace(handle_, workspace, workspace_nbytes_),
                                    "setting the workspace of cuBLAS"));
  workspace_ = workspace;
  stream_ = stream;
  owner_ = BlasWorkspace::current() ? BlasWorkspace::current()->id() : 0;
  has_stream_ = true;
  return Error::Ok;
}

cudaStream_t BlasContext::recording_stream(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
      status != cudaStreamCaptureStatusNone) {
    (void)cudaGetLastError();
    return nullptr;
  }
  if (recording_stream_ == nullptr &&
      cudaStreamCreateWithFlags(&recording_stream_, cudaStreamNonBlocking) != cudaSuccess) {
    (void)cudaGetLastError();
    recording_stream_ = nullptr;
  }
  return recording_stream_;
}

Result<BlasContext*> BlasContext::get(int device, cudaStream_t stream) {
  thread_local BlasContexts contexts;
  BlasContext* context = contexts.find(device);
  if (__builtin_expect(context == nullptr, 0)) {
    PTERON_RETURN_IF_ERROR(refuse_during_capture(stream, "creating a cuBLAS handle"));
    PTERON_ASSIGN_OR_RETURN(context, contexts.add(device));
  }
  const BlasWorkspace* own = BlasWorkspace::current();
  const uint64_t owner = own ? own->id() : 0;
  // A stream's address may be reused; the owner's id never is.
  if (__builtin_expect(
          !context->has_stream_ || context->stream_ != stream || context->owner_ != owner, 0)) {
    PTERON_RETURN_IF_ERROR(context->use(stream));
  }
  return context;
}

}  // namespace pteron::cuda
