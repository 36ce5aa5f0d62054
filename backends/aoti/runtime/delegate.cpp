#include "pteron/backends/aoti/runtime/delegate.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/runtime/argument_binding.h"
#include "pteron/backends/aoti/runtime/container/container.h"
#include "pteron/backends/aoti/runtime/contract.h"
#include "pteron/backends/aoti/runtime/lowering_faults.h"
#include "pteron/backends/aoti/runtime/metadata.h"
#include "pteron/backends/aoti/runtime/payload_keys.h"
#include "pteron/backends/aoti/shims/shim_library.h"
#include "pteron/runtime/platform/guard_pages.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::aoti {
namespace {

using slim::TensorPtr;

struct EndRun {
  AotiDevice& device;
  ~EndRun() { device.end_run(); }
};

class AotiDelegate final : public Delegate {
 public:
  AotiDelegate(std::unique_ptr<AotiDevice> device, std::unique_ptr<Container> container,
               Contract contract, std::vector<KernelInfo> kernels)
      : device_(std::move(device)),
        container_(std::move(container)),
        kernel_trace_(container_->object(), std::move(kernels)),
        binding_(std::move(contract), container_->num_inputs(), container_->num_outputs(),
                 device_->device()),
        reuses_output_buffers_(device_->reuses_output_buffers()),
        can_prepare_(device_->can_prepare()) {}

  Error execute(BackendExecutionContext& context, Span<EValue* const> arguments) override {
    PTERON_RETURN_IF_ERROR(device_->begin_run());
    const EndRun end_run{*device_};
    if (__builtin_expect(context.tracer != nullptr, 0)) {
      const KernelTrace::Run traced(kernel_trace_, *context.tracer, device_->kernel_timer());
      return run(arguments);
    }
    if (can_prepare_) {
      PTERON_ASSIGN_OR_RETURN(const bool done, device_->run_prepared(arguments));
      if (done) return Error::Ok;
    }
    return run(arguments);
  }

  bool writes_input(size_t index) const override {
    return index < container_->num_inputs() && binding_.changes_input(index);
  }

  bool can_prepare() const override { return can_prepare_; }

  Error prepare(BackendExecutionContext&, Span<EValue* const> arguments,
                Span<const bool> fixed) override {
    FinishedRun finished;
    finished.arguments = arguments;
    finished.fixed = fixed;
    finished.num_inputs = container_->num_inputs();
    finished.changes = [this](size_t input) { return binding_.changes_input(input); };
    finished.execute = [this](Span<EValue* const> others) { return run(others); };
    return device_->prepare(finished);
  }

 private:
  Error run(Span<EValue* const> arguments) {
    PTERON_RETURN_IF_ERROR(binding_.bind_inputs(arguments));
    if (reuses_output_buffers_) device_->offer_output_buffers(binding_.output_buffers(arguments));
    Error error = container_->run(binding_.inputs(), binding_.outputs(), device_->stream());
    if (reuses_output_buffers_) device_->withdraw_output_buffers(binding_.outputs());
    if (!error.ok()) return kernel_trace_.in_the_model(std::move(error));
    return binding_.store_outputs(arguments);
  }

  std::unique_ptr<AotiDevice> device_;  // outlives the container, which may use its stream
  std::unique_ptr<Container> container_;
  const KernelTrace kernel_trace_;
  ArgumentBinding binding_;
  const bool reuses_output_buffers_;
  const bool can_prepare_;
};

Error set_options(Span<const BackendOption> options, AotiDevice& device) {
  const std::vector<std::string_view> known = device.option_keys();
  std::string unknown;
  for (const BackendOption& option : options) {
    if (std::find(known.begin(), known.end(), option.key) == known.end()) {
      unknown += (unknown.empty() ? "" : ", ") + option.key;
    }
  }
  if (!unknown.empty()) {
    std::string keys;
    for (const std::string_view key : known) {
      if (!keys.empty()) keys += ", ";
      keys += key;
    }
    return make_error(Error::InvalidArgument, "unknown option%s %s; known: %s",
                      unknown.find(',') == std::string::npos ? "" : "s", unknown.c_str(),
                      keys.empty() ? "none" : keys.c_str());
  }
  for (const BackendOption& option : options) PTERON_RETURN_IF_ERROR(device.set_option(option));
  return Error::Ok;
}

Error check_target(const Metadata& metadata, const AotiDevice& device) {
  PTERON_CHECK_OR_RETURN(metadata.device == device.name(), Error::DelegateInvalidCompatibility,
                         "compiled for device %.*s, loaded by the backend for %.*s",
                         static_cast<int>(metadata.device.size()), metadata.device.data(),
                         static_cast<int>(device.name().size()), device.name().data());
  PTERON_CHECK_OR_RETURN(metadata.shim_list_version <= kShimListVersion,
                         Error::DelegateInvalidCompatibility,
                         "made for version %u of the shim list, this runtime has versions 1 to %u: "
                         "use a newer runtime, or lower the model for this one",
                         metadata.shim_list_version, kShimListVersion);
  return Error::Ok;
}

// Metadata of each variant in the program.
Result<std::vector<Metadata>> read_metadata(const NamedDataMap& data,
                                            const std::vector<PayloadKeys>& variants,
                                            const AotiDevice& device) {
  std::vector<Metadata> tables;
  for (const PayloadKeys& keys : variants) {
    PTERON_ASSIGN_OR_RETURN(const Span<const uint8_t> blob, data.get_verified(keys.metadata()));
    PTERON_ASSIGN_OR_RETURN(Metadata metadata, Metadata::parse(blob));
    PTERON_RETURN_IF_ERROR(check_target(metadata, device));
    tables.push_back(std::move(metadata));
  }
  return tables;
}

// The digest in a key "<64 hex digits>_so_blob".
bool digest_in_key(const std::string& key, Sha256Digest* digest) {
  if (key.size() < 64) return false;
  for (size_t i = 0; i < 32; ++i) {
    int byte = 0;
    for (size_t k = 0; k < 2; ++k) {
      const char c = key[2 * i + k];
      const int nibble = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (nibble < 0) return false;
      byte = byte * 16 + nibble;
    }
    (*digest)[i] = static_cast<uint8_t>(byte);
  }
  return true;
}

Error take_of_budget(const BackendInitContext& context, uint64_t nbytes, const char* what) {
  return context.budget ? context.budget->take(nbytes, what) : Error(Error::Ok);
}

Error set_borrowed_constants(const BackendInitContext& context, const Metadata& metadata,
                             AotiDevice& device, Container& container) {
  const NamedDataMap& data = *context.named_data;
  std::vector<Span<const uint8_t>> bytes;
  bytes.reserve(metadata.constants.size());
  std::unordered_map<std::string_view, Span<const uint8_t>> blobs;
  for (const ConstantInfo& constant : metadata.constants) {
    auto known = blobs.find(constant.blob_key);
    if (known == blobs.end()) {
      PTERON_ASSIGN_OR_RETURN(const Span<const uint8_t> blob, data.get_data(constant.blob_key));
      known = blobs.emplace(constant.blob_key, blob).first;
    }
    const Span<const uint8_t> blob = known->second;
    PTERON_CHECK_OR_RETURN(
        constant.offset <= blob.size() && constant.nbytes <= blob.size() - constant.offset,
        Error::InvalidProgram, "constant %.*s: %llu bytes at %llu of a blob of %zu bytes",
        static_cast<int>(constant.fqn.size()), constant.fqn.data(),
        static_cast<unsigned long long>(constant.nbytes),
        static_cast<unsigned long long>(constant.offset), blob.size());
    bytes.emplace_back(blob.data() + constant.offset, constant.nbytes);
    if (device.device().type != DeviceType::CPU) {
      PTERON_RETURN_IF_ERROR(take_of_budget(context, constant.nbytes, "a weight on a device"));
    }
  }
  PTERON_ASSIGN_OR_RETURN(std::vector<TensorPtr> tensors,
                          device.make_constants(metadata.constants, bytes));
  std::vector<NamedConstant> constants;
  constants.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    constants.push_back({std::string(metadata.constants[i].name), std::move(tensors[i])});
  }
  return container.set_borrowed_constants(std::move(constants));
}

Error check_counts(const Metadata& metadata, const Container& container) {
  PTERON_CHECK_OR_RETURN(metadata.inputs.size() == container.num_inputs() &&
                             metadata.outputs.size() == container.num_outputs(),
                         Error::InvalidProgram,
                         "the metadata has %zu inputs and %zu outputs, the code %zu and %zu",
                         metadata.inputs.size(), metadata.outputs.size(), container.num_inputs(),
                         container.num_outputs());
  return Error::Ok;
}

// A file of another writer: code and one blob of weights, without metadata.
Result<std::unique_ptr<Delegate>> load_without_metadata(const BackendInitContext& context,
                                                        const PayloadKeys& keys,
                                                        std::unique_ptr<AotiDevice> device) {
  PTERON_CHECK_OR_RETURN(device->runs_without_metadata(), Error::NotSupported,
                         "there is no metadata for the delegate's code (%s): the file was not "
                         "written for this runtime, and what the code needs of a machine and of "
                         "its inputs is not known. Lower the model again",
                         keys.code.c_str());
  const NamedDataMap& data = *context.named_data;
  PTERON_ASSIGN_OR_RETURN(const Span<const uint8_t> code, data.get_verified(keys.code));
  PTERON_ASSIGN_OR_RETURN(const Span<const uint8_t> weights, data.get_data(keys.weights));
  PTERON_RETURN_IF_ERROR(take_of_budget(context, code.size(), "native code"));
  PTERON_RETURN_IF_ERROR(take_of_budget(context, weights.size(), "weights"));
  Sha256Digest digest;
  if (!digest_in_key(keys.code, &digest)) digest = sha256(code);
  PTERON_ASSIGN_OR_RETURN(std::shared_ptr<SharedObject> object, SharedObject::load(code, digest));
  PTERON_ASSIGN_OR_RETURN(
      std::unique_ptr<Container> container,
      Container::create(std::move(object), device->container_device(), device->scope()));
  PTERON_RETURN_IF_ERROR(container->copy_constants(weights));
  return std::unique_ptr<Delegate>(
      new AotiDelegate(std::move(device), std::move(container), Contract(), {}));
}

}  // namespace

Result<std::vector<TensorPtr>> AotiDevice::make_constants(Span<const ConstantInfo> constants,
                                                          Span<const Span<const uint8_t>> bytes) {
  std::vector<TensorPtr> tensors;
  tensors.reserve(constants.size());
  for (size_t i = 0; i < constants.size(); ++i) {
    const ConstantInfo& constant = constants[i];
    void* data = const_cast<uint8_t*>(bytes[i].data());
    if (guard_pages() != GuardPages::kNone) {  // a copy that lives as long as the process
      data = guarded_allocate(bytes[i].size());
      PTERON_CHECK_OR_RETURN(data, Error::MemoryAllocationFailed, "no memory for a constant");
      std::memcpy(data, bytes[i].data(), bytes[i].size());
    }
    // Lowering rejects everything that writes to a constant.
    PTERON_ASSIGN_OR_RETURN(
        TensorPtr tensor,
        slim::make_tensor_from_blob(data, constant.sizes, constant.strides, constant.storage_offset,
                                    constant.dtype, device(), bytes[i].size()));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<std::unique_ptr<Delegate>> load_delegate(BackendInitContext& context,
                                                Span<const uint8_t> processed,
                                                std::unique_ptr<AotiDevice> device) {
  const NamedDataMap& data = *context.named_data;
  PTERON_RETURN_IF_ERROR(set_options(context.options, *device));
  PTERON_ASSIGN_OR_RETURN(const std::vector<PayloadKeys> variants, PayloadKeys::parse(processed));
  if (variants.size() == 1) {
    const Result<Span<const uint8_t>> blob = data.get_data(variants[0].metadata());
    if (!blob.ok() && blob.error() == Error::NotFound) {
      return load_without_metadata(context, variants[0], std::move(device));
    }
  }
  PTERON_ASSIGN_OR_RETURN(const std::vector<Metadata> tables,
                          read_metadata(data, variants, *device));
  PTERON_ASSIGN_OR_RETURN(const size_t chosen, device->choose_variant(tables));
  const Metadata& metadata = tables[chosen];
  for (const LoweringFault& fault : lowering_faults(metadata)) {
    PTERON_LOG(Warning,
               "this program was lowered by an early version, in whose code %.*s: lower the model "
               "again (CHANGELOG.md)",
               static_cast<int>(fault.what.size()), fault.what.data());
  }
  PTERON_ASSIGN_OR_RETURN(Contract contract, Contract::make(metadata));

  PTERON_ASSIGN_OR_RETURN(const Span<const uint8_t> code, data.get_data(variants[chosen].code));
  PTERON_RETURN_IF_ERROR(take_of_budget(context, code.size(), "native code"));
  std::shared_ptr<SharedObject> object;
  {
    TraceScope trace(context.tracer, "load", "shared object");
    PTERON_ASSIGN_OR_RETURN(object, SharedObject::load(code, metadata.so_digest));
  }
  PTERON_ASSIGN_OR_RETURN(
      std::unique_ptr<Container> container,
      Container::create(std::move(object), device->container_device(), device->scope()));
  PTERON_RETURN_IF_ERROR(check_counts(metadata, *container));
  {
    TraceScope trace(context.tracer, "load", "constants");
    PTERON_RETURN_IF_ERROR(set_borrowed_constants(context, metadata, *device, *container));
  }
  return std::unique_ptr<Delegate>(new AotiDelegate(std::move(device), std::move(container),
                                                    std::move(contract), metadata.kernels));
}

}  // namespace pteron::aoti
