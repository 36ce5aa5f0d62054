// Backend "CudaBackend": partitions compiled by AOTInductor for NVIDIA GPUs.
#include <memory>
#include <string>

#include "pteron/backends/aoti/runtime/delegate.h"
#include "pteron/backends/aoti/runtime/describe.h"
#include "pteron/backends/aoti/shims/shim_library.h"
#include "pteron/backends/aoti/slim/core/caching_allocator.h"
#include "pteron/backends/cuda/runtime/caching_pool.h"
#include "pteron/backends/cuda/runtime/cuda_device.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::cuda {
namespace {

class CudaBackend final : public BackendInterface {
 public:
  bool is_available(std::string* reason) const override {
    if (device_count() > 0) return true;
    if (reason) *reason = "there is no CUDA device that can be used";
    return false;
  }

  std::string describe(const NamedDataMap& named_data, Span<const uint8_t> processed,
                       Span<const CompileSpec>) const override {
    return aoti::describe_delegate(named_data, processed);
  }

  Result<std::unique_ptr<Delegate>> init(BackendInitContext& context, Span<const uint8_t> processed,
                                         Span<const CompileSpec> compile_specs) override {
    PTERON_ASSIGN_OR_RETURN(const CudaSpecs specs,
                            CudaSpecs::parse(compile_specs, context.devices));
    return aoti::load_delegate(context, processed,
                               std::make_unique<CudaDevice>(specs, context.shared_state));
  }

  void release_cached_memory() noexcept override {
    if (CudaDevice::is_used_here()) CachingPool::trim_all();
    slim::release_cached_memory();
  }
};

[[maybe_unused]] const bool registered = [] {
  aoti::register_shim_library(&registered);
  const Error error = register_backend("CudaBackend", std::make_unique<CudaBackend>());
  if (!error.ok()) PTERON_LOG(Warning, "CudaBackend: %s", error.message().c_str());
  return error.ok();
}();

}  // namespace
}  // namespace pteron::cuda
