#include "pteron/runtime/executor/tests/test_kernels.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include "pteron/runtime/kernel/registry.h"

namespace pteron::testing {
namespace {

using Arguments = Span<EValue* const>;

// A float32 tensor with memory for all its elements.
Error check_floats(const EValue& value) {
  PTERON_CHECK_OR_RETURN(value.is_tensor(), Error::InvalidType, "expected a tensor, found %s",
                         value.kind());
  const Tensor& tensor = value.tensor();
  PTERON_CHECK_OR_RETURN(tensor.dtype() == ScalarType::Float, Error::InvalidType,
                         "expected float32, found %s", tensor.describe().c_str());
  PTERON_CHECK_OR_RETURN(tensor.numel() == 0 || tensor.data(), Error::Internal, "%s has no memory",
                         tensor.describe().c_str());
  return Error::Ok;
}

// One that may be written.
Error check_out(const EValue& value) {
  PTERON_RETURN_IF_ERROR(check_floats(value));
  PTERON_CHECK_OR_RETURN(!value.tensor().is_constant(), Error::InvalidArgument, "%s is read-only",
                         value.tensor().describe().c_str());
  return Error::Ok;
}

Error check_count(Arguments arguments, size_t count) {
  PTERON_CHECK_OR_RETURN(arguments.size() == count, Error::InvalidArgument,
                         "%zu arguments, expected %zu", arguments.size(), count);
  return Error::Ok;
}

Error add(KernelContext&, Arguments arguments) {
  PTERON_RETURN_IF_ERROR(check_count(arguments, 4));
  for (size_t i = 0; i < 2; ++i) PTERON_RETURN_IF_ERROR(check_floats(*arguments[i]));
  PTERON_RETURN_IF_ERROR(check_out(*arguments[2]));
  const Tensor& a = arguments[0]->tensor();
  const Tensor& b = arguments[1]->tensor();
  Tensor& out = arguments[2]->tensor();
  PTERON_CHECK_OR_RETURN(a.numel() == b.numel(), Error::InvalidArgument, "%s and %s",
                         a.describe().c_str(), b.describe().c_str());
  PTERON_RETURN_IF_ERROR(out.resize(a.sizes()));
  for (int64_t i = 0; i < a.numel(); ++i) {
    out.data_as<float>()[i] = a.data_as<float>()[i] + b.data_as<float>()[i];
  }
  return Error::Ok;
}

Error copy_(KernelContext&, Arguments arguments) {
  PTERON_RETURN_IF_ERROR(check_count(arguments, 3));
  PTERON_RETURN_IF_ERROR(check_out(*arguments[0]));
  PTERON_RETURN_IF_ERROR(check_floats(*arguments[1]));
  const Tensor& self = arguments[0]->tensor();
  const Tensor& source = arguments[1]->tensor();
  PTERON_CHECK_OR_RETURN(self.numel() == source.numel(), Error::InvalidArgument, "%s and %s",
                         self.describe().c_str(), source.describe().c_str());
  for (int64_t i = 0; i < self.numel(); ++i) {
    self.data_as<float>()[i] = source.data_as<float>()[i];
  }
  return Error::Ok;
}

Error fill(KernelContext&, Arguments arguments) {
  PTERON_RETURN_IF_ERROR(check_count(arguments, 3));
  PTERON_RETURN_IF_ERROR(check_out(*arguments[1]));
  PTERON_CHECK_OR_RETURN(arguments[0]->is_int(), Error::InvalidType, "expected an int");
  const Tensor& out = arguments[1]->tensor();
  for (int64_t i = 0; i < out.numel(); ++i) {
    out.data_as<float>()[i] = static_cast<float>(arguments[0]->to_int());
  }
  return Error::Ok;
}

// A slot keeps its kind: others rely on it.
Error set(EValue* slot, const EValue& value) {
  PTERON_CHECK_OR_RETURN(slot->value_kind() == value.value_kind(), Error::InvalidType,
                         "expected a slot for %s, found %s", value.kind(), slot->kind());
  *slot = value;
  return Error::Ok;
}

Error check_ints(Arguments arguments, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    PTERON_CHECK_OR_RETURN(arguments[i]->is_int(), Error::InvalidType, "expected an int, found %s",
                           arguments[i]->kind());
  }
  return Error::Ok;
}

Error size(KernelContext&, Arguments arguments) {
  PTERON_RETURN_IF_ERROR(check_count(arguments, 3));
  PTERON_RETURN_IF_ERROR(check_floats(*arguments[0]));
  PTERON_RETURN_IF_ERROR(check_ints({arguments.data() + 1, 1}, 1));
  const Tensor& tensor = arguments[0]->tensor();
  const int64_t dim = arguments[1]->to_int();
  PTERON_CHECK_OR_RETURN(dim >= 0 && static_cast<size_t>(dim) < tensor.dim(),
                         Error::InvalidArgument, "no such dimension");
  return set(arguments[2], EValue(tensor.size(static_cast<size_t>(dim))));
}

Error add_int(KernelContext&, Arguments arguments) {
  PTERON_RETURN_IF_ERROR(check_count(arguments, 3));
  PTERON_RETURN_IF_ERROR(check_ints(arguments, 2));
  const auto sum =
      static_cast<uint64_t>(arguments[0]->to_int()) + static_cast<uint64_t>(arguments[1]->to_int());
  return set(arguments[2], EValue(static_cast<int64_t>(sum)));
}

Error less(KernelContext&, Arguments arguments) {
  PTERON_RETURN_IF_ERROR(check_count(arguments, 3));
  PTERON_RETURN_IF_ERROR(check_ints(arguments, 2));
  return set(arguments[2], EValue(arguments[0]->to_int() < arguments[1]->to_int()));
}

Error sum_lists(KernelContext&, Arguments arguments) {
  PTERON_RETURN_IF_ERROR(check_count(arguments, 7));
  const bool kinds = arguments[0]->is_int_list() && arguments[1]->is_double_list() &&
                     arguments[2]->is_bool_list() && arguments[3]->is_tensor_list() &&
                     arguments[4]->is_optional_tensor_list();
  PTERON_CHECK_OR_RETURN(kinds, Error::InvalidType, "expected five lists");
  PTERON_RETURN_IF_ERROR(check_out(*arguments[5]));
  double sum = 0;
  for (const EValue* const item : arguments[0]->to_int_list().items) sum += item->to_int();
  for (const double item : arguments[1]->to_double_list().items) sum += item;
  for (const bool item : arguments[2]->to_bool_list().items) sum += item;
  const auto add_tensor = [&](const EValue& value) -> Error {
    PTERON_RETURN_IF_ERROR(check_floats(value));
    const Tensor& tensor = value.tensor();
    for (int64_t i = 0; i < tensor.numel(); ++i) sum += tensor.data_as<float>()[i];
    return Error::Ok;
  };
  for (const EValue* const item : arguments[3]->to_tensor_list().items) {
    PTERON_RETURN_IF_ERROR(add_tensor(*item));
  }
  for (const EValue* const item : arguments[4]->to_optional_tensor_list().items) {
    if (item) PTERON_RETURN_IF_ERROR(add_tensor(*item));
  }
  PTERON_CHECK_OR_RETURN(arguments[5]->tensor().numel() > 0, Error::InvalidArgument, "empty out");
  arguments[5]->tensor().data_as<float>()[0] = static_cast<float>(sum);
  return Error::Ok;
}

Error fail(KernelContext&, Arguments) { return Error(Error::Internal, "failed as told"); }

const Kernel kKernels[] = {
    {"test::add.out", add},         {"test::copy_", copy_, KernelMemory::Shared},
    {"test::fill.out", fill},       {"test::size", size},
    {"test::add_int", add_int},     {"test::less", less},
    {"test::sum_lists", sum_lists}, {"test::fail", fail},
};

class ScaleDelegate final : public Delegate {
 public:
  ScaleDelegate(float factor, std::string name, bool fails, std::string prepare)
      : factor_(factor), name_(std::move(name)), fails_(fails), prepare_(std::move(prepare)) {
    ++scale_backend_log().alive;
    record("init ");
  }
  ~ScaleDelegate() override {
    --scale_backend_log().alive;
    record("destroy ");
  }

  Error execute(BackendExecutionContext&, Arguments arguments) override {
    PTERON_CHECK_OR_RETURN(!fails_, Error::Internal, "delegate %s failed as told", name_.c_str());
    PTERON_CHECK_OR_RETURN(arguments.size() >= 2, Error::InvalidArgument, "too few arguments");
    EValue& out_value = *arguments[arguments.size() - 1];
    PTERON_RETURN_IF_ERROR(check_floats(*arguments[0]));
    PTERON_RETURN_IF_ERROR(check_out(out_value));
    const Tensor& in = arguments[0]->tensor();
    Tensor& out = out_value.tensor();
    PTERON_RETURN_IF_ERROR(out.resize(in.sizes()));
    for (int64_t i = 0; i < in.numel(); ++i) {
      out.data_as<float>()[i] = factor_ * in.data_as<float>()[i];
    }
    return Error::Ok;
  }

  bool can_prepare() const override { return !prepare_.empty(); }

  Error prepare(BackendExecutionContext&, Arguments arguments, Span<const bool> fixed) override {
    std::string what = "prepare ";
    for (size_t i = 0; i < arguments.size(); ++i) what += fixed[i] ? "fixed " : "free ";
    record(what.c_str());
    PTERON_CHECK_OR_RETURN(prepare_ != "fail", Error::NotSupported, "%s cannot, as told",
                           name_.c_str());
    return Error::Ok;
  }

 private:
  void record(const char* what) const {
    ScaleBackendLog& log = scale_backend_log();
    if (log.recording) log.events.push_back(what + name_);
  }

  float factor_;
  std::string name_;
  bool fails_;
  std::string prepare_;
};

class ScaleBackend final : public BackendInterface {
 public:
  Result<std::unique_ptr<Delegate>> init(BackendInitContext& context, Span<const uint8_t> processed,
                                         Span<const CompileSpec> specs) override {
    std::string name;
    std::string fails;
    std::string prepare;
    for (const CompileSpec& spec : specs) {
      const std::string value(spec.value.begin(), spec.value.end());
      if (spec.key == "name") name = value;
      if (spec.key == "fail") fails = value;
      if (spec.key == "prepare") prepare = value;
    }
    ScaleBackendLog& log = scale_backend_log();
    if (log.recording) {
      log.options.clear();
      for (const BackendOption& option : context.options) log.options.push_back(option.key);
      if (!*context.shared_state) *context.shared_state = std::make_shared<int>(0);
      log.shared_states.push_back(context.shared_state->get());
    }
    PTERON_CHECK_OR_RETURN(fails != "init", Error::DelegateInvalidCompatibility,
                           "init of %s failed as told", name.c_str());
    const std::string text(processed.begin(), processed.end());
    const float factor = text.empty() ? 1 : std::strtof(text.c_str(), nullptr);
    return std::unique_ptr<Delegate>(new ScaleDelegate(factor, name, fails == "execute", prepare));
  }
};

const bool kRegistered = register_kernels(kKernels).ok() &&
                         register_backend(kScaleBackend, std::make_unique<ScaleBackend>()).ok();

}  // namespace

void ScaleBackendLog::clear() {
  events.clear();
  options.clear();
  shared_states.clear();
}

ScaleBackendLog& scale_backend_log() {
  static ScaleBackendLog* const log = new ScaleBackendLog;
  return *log;
}

}  // namespace pteron::testing
