#include "pteron/backends/aoti/runtime/container/container.h"

#include <unordered_set>
#include <utility>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/failed_check.h"
#include "pteron/backends/aoti/shims/handle_scope.h"

namespace pteron::aoti {
namespace {

using slim::SlimTensor;

// The C ABI that every shared object exports. Status 0 is success.
using ContainerHandle = void*;
struct ConstantPair {
  const char* name;
  SlimTensor* handle;
};
using Create = int32_t (*)(ContainerHandle*, size_t num_models, const char* device,
                           const char* cubin_dir);
using Delete = int32_t (*)(ContainerHandle);
using GetCount = int32_t (*)(ContainerHandle, size_t*);
using GetName = int32_t (*)(ContainerHandle, size_t, const char**);
using GetFlag = int32_t (*)(ContainerHandle, size_t, bool*);
using GetSize = int32_t (*)(ContainerHandle, size_t, size_t*);
using UpdatePairs = int32_t (*)(ContainerHandle, const ConstantPair*, size_t count,
                                bool use_inactive, bool validate_full_update);
using UpdateBlob = int32_t (*)(ContainerHandle, const uint8_t*);
using Run = int32_t (*)(ContainerHandle, SlimTensor** inputs, size_t num_inputs,
                        SlimTensor** outputs, size_t num_outputs, void* stream,
                        void* proxy_executor);
using GetLastError = int32_t (*)(const char**);

class Entered final {
 public:
  explicit Entered(ContainerScope* scope) : scope_(scope) {
    if (scope_) error_ = scope_->enter();
    if (!error_.ok()) scope_ = nullptr;
  }
  ~Entered() {
    if (scope_) scope_->leave();
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

  Error take_error() { return std::move(error_); }

 private:
  ContainerScope* scope_;
  Error error_;
};

void delete_all(Span<SlimTensor*> handles) {
  for (size_t i = 0; i < handles.size(); ++i) {
    SlimTensor* handle = std::exchange(handles[i], nullptr);
    if (!handle) continue;
    // One handle may stand for two outputs.
    for (size_t k = i + 1; k < handles.size(); ++k) {
      if (handles[k] == handle) handles[k] = nullptr;
    }
    delete handle;
  }
}

}  // namespace

struct Container::Api {
  Create create;
  Delete destroy;
  GetCount num_inputs, num_outputs, num_constants;
  GetName constant_name;
  GetFlag constant_from_folded;
  GetSize constant_data_size;
  UpdatePairs update_user_managed;
  UpdateBlob update_from_blob;
  Run run;
  GetLastError last_error;
};

Result<std::unique_ptr<Container>> Container::create(std::shared_ptr<SharedObject> object,
                                                     const std::string& device,
                                                     std::shared_ptr<ContainerScope> scope) {
  std::unique_ptr<Container> container(new Container);
  container->object_ = std::move(object);
  container->scope_ = std::move(scope);
  container->api_ = std::make_unique<Api>();
  Api& api = *container->api_;
  std::string missing;
  const auto find = [&](const char* name, auto* function) {
    void* address = container->object_->symbol(name);
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(address);
    if (!address) missing += missing.empty() ? name : std::string(", ") + name;
  };
  find("AOTInductorModelContainerCreateWithDevice", &api.create);
  find("AOTInductorModelContainerDelete", &api.destroy);
  find("AOTInductorModelContainerGetNumInputs", &api.num_inputs);
  find("AOTInductorModelContainerGetNumOutputs", &api.num_outputs);
  find("AOTInductorModelContainerGetNumConstants", &api.num_constants);
  find("AOTInductorModelContainerGetConstantName", &api.constant_name);
  find("AOTInductorModelContainerGetConstantFromFolded", &api.constant_from_folded);
  find("AOTInductorModelContainerGetConstantDataSize", &api.constant_data_size);
  find("AOTInductorModelContainerUpdateUserManagedConstantBufferPairs", &api.update_user_managed);
  find("AOTInductorModelUpdateConstantsFromBlob", &api.update_from_blob);
  // Containers run single-threaded, so the variant without locks is used.
  find("AOTInductorModelContainerRunSingleThreaded", &api.run);
  PTERON_CHECK_OR_RETURN(missing.empty(), Error::InvalidProgram,
                         "the shared object is no model this runtime can run: it lacks %s",
                         missing.c_str());
  // Models of older torch releases lack it.
  api.last_error =
      reinterpret_cast<GetLastError>(container->object_->symbol("AOTInductorGetLastError"));

  Entered entered(container->scope_.get());
  PTERON_RETURN_IF_ERROR(entered.take_error());
  clear_shim_error();
  if (api.create(&container->handle_, 1, device.c_str(), nullptr) != 0) {
    container->handle_ = nullptr;
    return container->failure("the model cannot be created");
  }
  if (api.num_inputs(container->handle_, &container->num_inputs_) != 0 ||
      api.num_outputs(container->handle_, &container->num_outputs_) != 0) {
    return container->failure("the model does not report its inputs and outputs");
  }
  return container;
}

Container::~Container() {
  if (!handle_) return;
  Entered entered(scope_.get());
  api_->destroy(handle_);
}

// Also where the status is 0, since some of the container's code does not look at what a shim returns.
Error Container::failure(const char* what) const {
  if (run_has_failed()) return take_run_failure().with_context(what);
  std::string message = what;
  const char* own = nullptr;
  if (api_->last_error && api_->last_error(&own) == 0 && own && *own) {
    message += ": ";
    message += own;
  }
  if (shim_error_code() == Error::Ok) return Error(Error::Internal, std::move(message));
  message += " (" + shim_error() + ")";
  return Error(shim_error_code(), std::move(message));
}

Result<std::vector<std::string>> Container::constant_names() {
  size_t count = 0;
  if (api_->num_constants(handle_, &count) != 0) return failure("the model's constants");
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    bool folded = false;
    if (api_->constant_name(handle_, i, &name) != 0 || !name ||
        api_->constant_from_folded(handle_, i, &folded) != 0) {
      return failure("the model's constants");
    }
    if (!folded) names.emplace_back(name);
  }
  return names;
}

Error Container::set_borrowed_constants(std::vector<NamedConstant> constants) {
  PTERON_CHECK_OR_RETURN(!has_constants_, Error::InvalidState, "constants are set already");
  has_constants_ = true;
  if (constants.empty()) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const std::vector<std::string> known, constant_names());
  const std::unordered_set<std::string_view> names(known.begin(), known.end());
  std::vector<ConstantPair> pairs;
  for (const NamedConstant& constant : constants) {
    PTERON_CHECK_OR_RETURN(names.count(constant.name), Error::InvalidProgram,
                           "the metadata names constant %s, which the model does not have",
                           constant.name.c_str());
    pairs.push_back({constant.name.c_str(), constant.tensor.get()});
  }
  constants_ = std::move(constants);
  Entered entered(scope_.get());
  PTERON_RETURN_IF_ERROR(entered.take_error());
  HandleScope handles;
  clear_shim_error();
  const int32_t status =
      api_->update_user_managed(handle_, pairs.data(), pairs.size(), false, false);
  shallow_handles_ = handles.take();
  return status == 0 && shim_error_code() == Error::Ok
             ? Error(Error::Ok)
             : failure("the model does not take its constants");
}

Error Container::copy_constants(Span<const uint8_t> blob) {
  PTERON_CHECK_OR_RETURN(!has_constants_, Error::InvalidState, "constants are set already");
  has_constants_ = true;
  size_t count = 0, total = 0;
  if (api_->num_constants(handle_, &count) != 0) return failure("the model's constants");
  for (size_t i = 0; i < count; ++i) {
    bool folded = false;
    size_t nbytes = 0;
    if (api_->constant_from_folded(handle_, i, &folded) != 0 ||
        api_->constant_data_size(handle_, i, &nbytes) != 0) {
      return failure("the model's constants");
    }
    if (!folded) total += nbytes;
  }
  if (total == 0) return Error::Ok;
  PTERON_CHECK_OR_RETURN(blob.size() >= total, Error::InvalidProgram,
                         "%zu bytes of weights, the model reads %zu", blob.size(), total);
  Entered entered(scope_.get());
  PTERON_RETURN_IF_ERROR(entered.take_error());
  clear_shim_error();
  return api_->update_from_blob(handle_, blob.data()) == 0 && shim_error_code() == Error::Ok
             ? Error(Error::Ok)
             : failure("the model does not take its constants");
}

Error Container::run(Span<SlimTensor*> inputs, Span<SlimTensor*> outputs, void* stream) {
  for (SlimTensor*& output : outputs) output = nullptr;
  // The code would report these by an exception.
  if (inputs.size() != num_inputs_ || outputs.size() != num_outputs_) {
    Error error = make_error(Error::Internal,
                             "the model takes %zu inputs and gives %zu outputs, found %zu and %zu",
                             num_inputs_, num_outputs_, inputs.size(), outputs.size());
    delete_all(inputs);
    return error;
  }
  Entered entered(scope_.get());
  if (Error error = entered.take_error(); __builtin_expect(!error.ok(), 0)) {
    delete_all(inputs);
    return error;
  }
  const slim::MemoryUse::Run run(memory_use_);
  clear_shim_error();
  const int32_t status = api_->run(handle_, inputs.data(), inputs.size(), outputs.data(),
                                   outputs.size(), stream, nullptr);
  const bool shims_failed = shim_error_code() != Error::Ok;
  if (__builtin_expect(status == 0 && !run_has_failed() && !shims_failed, 1)) return Error::Ok;
  Error error = failure("the model failed");
  clear_shim_error();
  delete_all(inputs);
  delete_all(outputs);
  return error;
}

}  // namespace pteron::aoti
