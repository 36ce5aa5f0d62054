// Backend "CpuBackend": partitions compiled by AOTInductor for the CPU.
#include <memory>
#include <string>

#include "pteron/backends/aoti/runtime/delegate.h"
#include "pteron/backends/aoti/runtime/describe.h"
#include "pteron/backends/aoti/shims/shim_library.h"
#include "pteron/backends/aoti/slim/core/caching_allocator.h"
#include "pteron/backends/cpu/runtime/cpu_device.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::cpu {
namespace {

class CpuBackend final : public BackendInterface {
 public:
  std::string describe(const NamedDataMap& named_data, Span<const uint8_t> processed,
                       Span<const CompileSpec>) const override {
    return aoti::describe_delegate(named_data, processed);
  }

  Result<std::unique_ptr<Delegate>> init(BackendInitContext& context, Span<const uint8_t> processed,
                                         Span<const CompileSpec>) override {
    return aoti::load_delegate(context, processed, std::make_unique<CpuDevice>());
  }

  void release_cached_memory() noexcept override { slim::release_cached_memory(); }
};

[[maybe_unused]] const bool registered = [] {
  aoti::register_shim_library(&registered);
  const Error error = register_backend("CpuBackend", std::make_unique<CpuBackend>());
  if (!error.ok()) PTERON_LOG(Warning, "CpuBackend: %s", error.message().c_str());
  return error.ok();
}();

}  // namespace
}  // namespace pteron::cpu
