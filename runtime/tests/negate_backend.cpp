// A backend in a library of its own, for tests of how backends are found: outputs are the inputs
// with the other sign.
#include <memory>

#include "pteron/runtime/backend/interface.h"

namespace pteron {
namespace {

class NegateDelegate final : public Delegate {
 public:
  explicit NegateDelegate(float scale) : scale_(scale) {}

  Error execute(BackendExecutionContext&, Span<EValue* const> arguments) override {
    const Tensor& in = arguments[0]->tensor();
    Tensor& out = arguments[1]->tensor();
    PTERON_RETURN_IF_ERROR(out.resize(in.sizes()));
    for (int64_t i = 0; i < in.numel(); ++i) {
      out.data_as<float>()[i] = -scale_ * in.data_as<float>()[i];
    }
    return Error::Ok;
  }

 private:
  float scale_;
};

class NegateBackend final : public BackendInterface {
 public:
  Result<std::unique_ptr<Delegate>> init(BackendInitContext& context, Span<const uint8_t>,
                                         Span<const CompileSpec>) override {
    float scale = 1;
    for (const BackendOption& option : context.options) {
      const int64_t* value = std::get_if<int64_t>(&option.value);
      PTERON_CHECK_OR_RETURN(option.key == "scale" && value, Error::InvalidArgument,
                             "unknown option \"%s\", expected an int called scale",
                             option.key.c_str());
      scale = static_cast<float>(*value);
    }
    return std::unique_ptr<Delegate>(std::make_unique<NegateDelegate>(scale));
  }
};

[[maybe_unused]] const bool kRegistered =
    register_backend("NegateBackend", std::make_unique<NegateBackend>()).ok();

}  // namespace
}  // namespace pteron
