#include "pteron/backends/cuda/runtime/cuda_device.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/capture_mutex.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/cuda_kernel_timer.h"
#include "pteron/backends/cuda/runtime/weight_store.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron::cuda {
namespace {

// Constants of at least this size have their own memory and are shared individually.
constexpr size_t kOwnMemoryNbytes = 4096;

// The delegates of one method may be on several devices; each device has one stream.
using MethodStreams = std::map<int, std::weak_ptr<MethodStream>>;

std::string_view text_of(const CompileSpec& spec) {
  return {reinterpret_cast<const char*>(spec.value.data()), spec.value.size()};
}

Error check_architecture(const aoti::Metadata& metadata, int device) {
  int major = 0, minor = 0;
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
      "reading the compute capability");
  PTERON_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
      "reading the compute capability");
  std::string known;
  for (const std::string_view architecture : metadata.cuda_archs) {
    known += (known.empty() ? "" : ", ") + std::string(architecture);
    int number = 0;
    if (architecture.substr(0, 3) != "sm_") continue;
    std::from_chars(architecture.data() + 3, architecture.data() + architecture.size(), number);
    // A cubin runs on its major architecture, from its minor version on.
    if (number / 10 == major && number % 10 <= minor) return Error::Ok;
  }
  return make_error(Error::DelegateInvalidCompatibility,
                    "compiled for %s, CUDA device %d is sm_%d%d: lower the model on such a GPU",
                    known.c_str(), device, major, minor);
}

// CUDA cannot be used after fork(): every call fails in the child, and locks held by other threads
// stay held. Generation of the using process, plus one.
std::atomic<uint32_t> first_user{0};

Error check_process() {
  const uint32_t here = fork_generation() + 1;
  uint32_t first = first_user.load(std::memory_order_relaxed);
  if (__builtin_expect(first == here, 1)) return Error::Ok;
  if (first == 0 && first_user.compare_exchange_strong(first, here)) return Error::Ok;
  PTERON_CHECK_OR_RETURN(
      first == here, Error::InvalidState,
      "CUDA was used before this process was forked and cannot be used in it; "
      "start processes by \"spawn\", or fork before the first program is loaded");
  return Error::Ok;
}

}  // namespace

Result<CudaSpecs> CudaSpecs::parse(Span<const CompileSpec> specs, const DeviceMap* devices) {
  CudaSpecs parsed;
  Device device{DeviceType::CUDA, 0};
  for (const CompileSpec& spec : specs) {
    const std::string_view text = text_of(spec);
    if (spec.key == "target_device") {
      const Result<Device> named = parse_device(text);
      PTERON_CHECK_OR_RETURN(named.ok() && named->type == DeviceType::CUDA, Error::InvalidProgram,
                             "compile spec target_device: found \"%.*s\", expected cuda or "
                             "cuda:<n>",
                             static_cast<int>(text.size()), text.data());
      device = *named;
    } else if (spec.key == "allow_tf32") {
      PTERON_CHECK_OR_RETURN(text == "true" || text == "false", Error::InvalidProgram,
                             "compile spec allow_tf32: found \"%.*s\", expected true or false",
                             static_cast<int>(text.size()), text.data());
      parsed.allow_tf32 = text == "true";
    }
  }
  parsed.device = (devices ? (*devices)[device] : device).index;
  return parsed;
}

// Sets device, stream, memory and modules of one delegate. Entered around a whole run, and again,
// at no cost, around each call into the model.
class CudaDevice::Scope final : public aoti::ContainerScope {
 public:
  Scope(const ExecutionResources* resources, MethodStream& stream)
      : resources_(resources), stream_(stream) {}

  Error enter() noexcept override { return enter(stream_.own()); }

  Error enter(cudaStream_t stream) noexcept {
    if (depth_ == 0) {
      Result<slim::CudaStreamGuard> guard = slim::CudaStreamGuard::make(stream, stream_.device());
      if (!guard.ok()) return guard.take_error();
      guard_.emplace(std::move(*guard));
      workspace_before_ = BlasWorkspace::set_current(&stream_.workspace());
      scope_.emplace(resources_);
    }
    ++depth_;
    return Error::Ok;
  }

  void leave() noexcept override {
    if (--depth_ > 0) return;
    guard_.reset();
    BlasWorkspace::set_current(workspace_before_);
    scope_.reset();
  }

 private:
  const ExecutionResources* resources_;
  MethodStream& stream_;  // owned by the device, which outlives this
  int depth_ = 0;
  BlasWorkspace* workspace_before_ = nullptr;
  std::optional<ExecutionScope> scope_;
  std::optional<slim::CudaStreamGuard> guard_;
};

bool CudaDevice::is_used_here() {
  return first_user.load(std::memory_order_relaxed) == fork_generation() + 1;
}

CudaDevice::CudaDevice(const CudaSpecs& specs, std::shared_ptr<void>* shared)
    : index_(specs.device), shared_(shared) {
  resources_.allow_tf32 = specs.allow_tf32;
  resources_.modules = &modules_;
}

CudaDevice::~CudaDevice() {
  // Kernels of this delegate may still run; their modules must stay loaded until then.
  if (stream_) (void)stream_->synchronize();
  graphs_.clear();
  (void)modules_.unload_all();
}

Error CudaDevice::set_option(const BackendOption& option) {
  if (option.key == "max_graphs") {
    const int64_t* count = std::get_if<int64_t>(&option.value);
    PTERON_CHECK_OR_RETURN(count && *count >= 1, Error::InvalidArgument,
                           "option max_graphs: expected an int of at least 1");
    graphs_.set_limit(static_cast<size_t>(*count));
    return Error::Ok;
  }
  const bool* value = std::get_if<bool>(&option.value);
  PTERON_CHECK_OR_RETURN(value, Error::InvalidArgument, "option %s: expected a bool",
                         option.key.c_str());
  (option.key == "allow_tf32" ? resources_.allow_tf32 : resources_.record_products) = *value;
  return Error::Ok;
}

Error CudaDevice::check_machine(const aoti::Metadata& metadata) {
  PTERON_RETURN_IF_ERROR(check_process());
  PTERON_CHECK_OR_RETURN(
      !metadata.cuda_archs.empty(), Error::InvalidProgram,
      "the metadata names no GPU that the code was compiled for: lower the model "
      "again");
  const int count = device_count();
  PTERON_CHECK_OR_RETURN(count > 0, Error::NotFound,
                         "the program runs on CUDA and this machine has no CUDA device that can be "
                         "used; check the driver with nvidia-smi");
  PTERON_CHECK_OR_RETURN(index_ < count, Error::InvalidArgument,
                         "the program runs on cuda:%d, this machine has %d CUDA device%s; "
                         "map it to another when loading the method, as in cuda:%d=cuda:0",
                         index_, count, count == 1 ? "" : "s", index_);
  PTERON_RETURN_IF_ERROR(check_architecture(metadata, index_));
  if (!*shared_) *shared_ = std::make_shared<MethodStreams>();
  std::weak_ptr<MethodStream>& known = (*static_cast<MethodStreams*>(shared_->get()))[index_];
  stream_ = known.lock();
  if (!stream_) {
    PTERON_ASSIGN_OR_RETURN(stream_, MethodStream::make(index_));
    known = stream_;
  }
  resources_.pool = &stream_->pool();
  resources_.output_buffers = &output_buffers_;
  scope_ = std::make_shared<Scope>(&resources_, *stream_);
  return Error::Ok;
}

std::shared_ptr<aoti::ContainerScope> CudaDevice::scope() { return scope_; }

Result<std::vector<slim::TensorPtr>> CudaDevice::make_constants(
    Span<const aoti::ConstantInfo> constants, Span<const Span<const uint8_t>> bytes) {
  size_t nbytes = 0;
  for (const Span<const uint8_t>& each : bytes) nbytes += each.size();
  WeightUpload upload(index_, nbytes);
  std::vector<slim::StorageRef> storages(constants.size());
  std::vector<size_t> small;
  std::vector<Span<const uint8_t>> small_bytes;
  for (size_t i = 0; i < constants.size(); ++i) {
    if (bytes[i].size() < kOwnMemoryNbytes) {
      small.push_back(i);
      small_bytes.push_back(bytes[i]);
      continue;
    }
    const Sha256Digest& digest = constants[i].digest;
    PTERON_ASSIGN_OR_RETURN(
        storages[i], upload.add(digest == Sha256Digest{} ? sha256(bytes[i]) : digest, bytes[i]));
  }
  PTERON_ASSIGN_OR_RETURN(std::vector<slim::StorageRef> parts, upload.add_together(small_bytes));
  for (size_t i = 0; i < small.size(); ++i) storages[small[i]] = std::move(parts[i]);
  PTERON_RETURN_IF_ERROR(upload.finish());

  std::vector<slim::TensorPtr> tensors;
  tensors.reserve(constants.size());
  for (size_t i = 0; i < constants.size(); ++i) {
    const aoti::ConstantInfo& constant = constants[i];
    auto tensor = std::make_unique<slim::SlimTensor>();
    Error error = tensor->set(std::move(storages[i]), constant.sizes, constant.strides,
                              constant.storage_offset, constant.dtype);
    if (!error.ok()) return std::move(error).with_context(std::string(constant.fqn));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Error CudaDevice::begin_run() {
  PTERON_RETURN_IF_ERROR(check_process());
  PTERON_ASSIGN_OR_RETURN(const cudaStream_t stream, stream_->begin());
  return scope_->enter(stream);
}

void CudaDevice::end_run() noexcept {
  stream_->end(slim::current_cuda_stream(index_));
  scope_->leave();
}

Error CudaDevice::prepare(const aoti::FinishedRun& run) {
  if (graphs_.find(run.arguments)) return Error::Ok;
  return capture(run).with_context(
      "it cannot be a CUDA graph and is launched kernel by kernel, as before");
}

Error CudaDevice::capture(const aoti::FinishedRun& run) {
  PTERON_RETURN_IF_ERROR(stream_->synchronize());
  // Frees memory cached by runs without graphs.
  stream_->trim();
  graphs_.make_room();
  const std::lock_guard<std::mutex> lock(capture_mutex());
  const std::shared_ptr<CachingPool> pool = stream_->graph_pool();
  PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(index_));
  PTERON_ASSIGN_OR_RETURN(const cudaStream_t stream, stream_->capture_stream());
  PTERON_RETURN_IF_ERROR(scope_->enter(stream));
  resources_.pool = pool.get();
  Result<std::unique_ptr<CudaGraph>> graph = CudaGraph::capture(run, index_, pool, stream);
  resources_.pool = &stream_->pool();
  scope_->leave();
  if (!graph.ok()) return graph.take_error();
  graphs_.add(std::move(*graph));
  return Error::Ok;
}

Result<bool> CudaDevice::run_prepared(Span<EValue* const> arguments) {
  const cudaStream_t stream = slim::current_cuda_stream(index_);
  const CudaGraph* const graph = graphs_.find(arguments);
  // A caller's capture records kernels, but cannot record a graph launch.
  if (!graph || (stream != stream_->own() && is_capturing(stream))) return false;
  PTERON_RETURN_IF_ERROR(graph->launch(arguments, stream));
  return true;
}

std::unique_ptr<aoti::KernelTimer> CudaDevice::kernel_timer() {
  const cudaStream_t stream = slim::current_cuda_stream(index_);
  if (is_capturing(stream)) return nullptr;  // by the caller: nothing runs yet
  return std::make_unique<CudaKernelTimer>(stream);
}

}  // namespace pteron::cuda
