// Backend "MetalBackend": partitions compiled by AOTInductor for Apple GPUs.
#include <memory>
#include <string>

#include "pteron/backends/aoti/runtime/delegate.h"
#include "pteron/backends/aoti/runtime/describe.h"
#include "pteron/backends/aoti/shims/shim_library.h"
#include "pteron/backends/apple/metal/runtime/gpu.h"
#include "pteron/backends/apple/metal/runtime/metal_device.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::metal {
namespace {

class MetalBackend final : public BackendInterface {
 public:
  bool is_available(std::string* reason) const override {
    const Result<Gpu*> gpu = find_gpu();
    if (!gpu.ok() && reason) *reason = gpu.error().message();
    return gpu.ok();
  }

  std::string describe(const NamedDataMap& named_data, Span<const uint8_t> processed,
                       Span<const CompileSpec>) const override {
    return aoti::describe_delegate(named_data, processed);
  }

  Result<std::unique_ptr<Delegate>> init(BackendInitContext& context, Span<const uint8_t> processed,
                                         Span<const CompileSpec>) override {
    return aoti::load_delegate(context, processed, std::make_unique<MetalDevice>());
  }
};

[[maybe_unused]] const bool registered = [] {
  aoti::register_shim_library(&registered);
  const Error error = register_backend("MetalBackend", std::make_unique<MetalBackend>());
  if (!error.ok()) PTERON_LOG(Warning, "MetalBackend: %s", error.message().c_str());
  return error.ok();
}();

}  // namespace
}  // namespace pteron::metal
