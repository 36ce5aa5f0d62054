// Backend "BlasBackend": matrix products by OpenBLAS.
#include <memory>
#include <string>
#include <utility>

#include "pteron/backends/example/blas/runtime/blas_delegate.h"
#include "pteron/backends/example/blas/runtime/plan.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::blas {
namespace {

class BlasBackend final : public BackendInterface {
 public:
  Result<std::unique_ptr<Delegate>> init(BackendInitContext& context, Span<const uint8_t> processed,
                                         Span<const CompileSpec>) override {
    PTERON_CHECK_OR_RETURN(context.options.empty(), Error::InvalidArgument,
                           "BlasBackend has no option \"%s\"; it has none",
                           context.options[0].key.c_str());
    PTERON_ASSIGN_OR_RETURN(Plan plan, parse_plan(processed));
    return BlasDelegate::load(std::move(plan), *context.named_data);
  }

  std::string describe(const NamedDataMap&, Span<const uint8_t> processed,
                       Span<const CompileSpec>) const override {
    const auto plan = parse_plan(processed);
    if (!plan.ok()) return {};
    return "products  " + std::to_string(plan->products.size()) + "\nweights  " +
           std::to_string(plan->constants.size()) + "\n";
  }
};

[[maybe_unused]] const bool registered = [] {
  const Error error = register_backend("BlasBackend", std::make_unique<BlasBackend>());
  if (!error.ok()) PTERON_LOG(Warning, "BlasBackend: %s", error.message().c_str());
  return error.ok();
}();

}  // namespace
}  // namespace pteron::blas
