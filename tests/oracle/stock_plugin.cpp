#include "pteron/tests/oracle/stock_plugin.h"

#include <dlfcn.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/evalue.h"

namespace pteron {
namespace {

namespace stock = ::executorch::runtime;

// Error numbers are the same on both sides; the sentence is for the log.
stock::Error to_stock(const char* what, const Error& error) {
  std::fprintf(stderr, "%s: %s\n", what, error.message().c_str());
  return static_cast<stock::Error>(error.code());
}

// Blobs of the stock's map. Each is kept from the first use on, as long as the delegate.
class StockNamedData final : public NamedDataMap {
 public:
  explicit StockNamedData(const stock::NamedDataMap* map) : map_(map) {}

  Result<Span<const uint8_t>> get_data(std::string_view key) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto kept = kept_.find(key);
    if (kept == kept_.end()) {
      PTERON_CHECK_OR_RETURN(map_, Error::NotFound, "the program has no named data");
      auto found = map_->get_data(key);
      PTERON_CHECK_OR_RETURN(found.ok(), static_cast<Error::Code>(found.error()),
                             "no data \"%.*s\"", static_cast<int>(key.size()), key.data());
      kept = kept_.emplace(std::string(key), std::move(found.get())).first;
    }
    return Span<const uint8_t>(static_cast<const uint8_t*>(kept->second.data()),
                               kept->second.size());
  }
  // The stock reader knows nothing of digests.
  Result<Span<const uint8_t>> get_verified(std::string_view key) const override {
    return get_data(key);
  }
  size_t num_keys() const override {
    const auto count = map_ ? map_->get_num_keys() : stock::Result<uint32_t>(0u);
    return count.ok() ? *count : 0;
  }
  Result<std::string_view> get_key(size_t index) const override {
    PTERON_CHECK_OR_RETURN(map_, Error::NotFound, "the program has no named data");
    const auto key = map_->get_key(static_cast<uint32_t>(index));
    PTERON_CHECK_OR_RETURN(key.ok(), Error::NotFound, "no key %zu", index);
    return std::string_view(*key);
  }

 private:
  const stock::NamedDataMap* map_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, stock::FreeableBuffer, std::less<>> kept_;
};

// One delegate, and the values that it is called with.
class Handle {
 public:
  Handle(std::string method, const stock::NamedDataMap* map)
      : method_(std::move(method)), named_data_(map) {}

  Error init(BackendInterface& backend, Span<const uint8_t> processed,
             Span<const CompileSpec> specs) {
    BackendInitContext context;
    context.method_name = method_;
    context.named_data = &named_data_;
    context.shared_state = &shared_state_;
    PTERON_ASSIGN_OR_RETURN(delegate_, backend.init(context, processed, specs));
    return Error::Ok;
  }

  Error execute(stock::Span<stock::EValue*> arguments) {
    values_.resize(arguments.size());
    bounds_.resize(arguments.size());
    pointers_.clear();
    for (size_t i = 0; i < arguments.size(); ++i) {
      PTERON_ASSIGN_OR_RETURN(values_[i], from_stock(*arguments[i], bounds_[i]));
      pointers_.push_back(&values_[i]);
    }
    BackendExecutionContext context;
    context.method_name = method_;
    PTERON_RETURN_IF_ERROR(delegate_->execute(context, {pointers_.data(), pointers_.size()}));
    for (size_t i = 0; i < arguments.size(); ++i) {
      PTERON_RETURN_IF_ERROR(give_back(values_[i], *arguments[i]));
    }
    return Error::Ok;
  }

 private:
  // The stock tells a tensor's sizes and not their bounds. An output has its bounds before it is
  // first written, so the largest sizes seen are what its memory holds.
  static Result<EValue> from_stock(const stock::EValue& value, std::vector<int64_t>& bounds) {
    if (value.isInt()) return EValue(value.toInt());
    if (value.isDouble()) return EValue(value.toDouble());
    if (value.isBool()) return EValue(value.toBool());
    if (value.isNone()) return EValue();
    PTERON_CHECK_OR_RETURN(value.isTensor(), Error::NotSupported, "an argument of kind %u",
                           static_cast<unsigned>(value.tag));
    const auto& tensor = value.toTensor();
    const std::vector<int64_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
    bounds.resize(sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) bounds[i] = std::max(bounds[i], sizes[i]);
    const bool is_static = tensor.shape_dynamism() == stock::TensorShapeDynamism::STATIC;
    PTERON_ASSIGN_OR_RETURN(
        Tensor view,
        Tensor::make(static_cast<ScalarType>(tensor.scalar_type()), bounds,
                     Span<const uint8_t>(tensor.dim_order().data(), tensor.dim_order().size()),
                     tensor.mutable_data_ptr(), {},
                     is_static ? ShapeDynamism::Static : ShapeDynamism::DynamicBound));
    if (!is_static) PTERON_RETURN_IF_ERROR(view.resize(sizes));
    return EValue(std::move(view));
  }

  // Sizes and numbers that the delegate has changed.
  static Error give_back(const EValue& ours, stock::EValue& value) {
    if (ours.is_int() && value.isInt() && value.toInt() != ours.to_int()) {
      value = stock::EValue(ours.to_int());
    }
    if (!ours.is_tensor()) return Error::Ok;
    auto& tensor = value.toTensor();
    std::vector<stock::etensor::TensorImpl::SizesType> sizes;
    for (const int64_t size : ours.tensor().sizes()) sizes.push_back(static_cast<int32_t>(size));
    if (std::equal(sizes.begin(), sizes.end(), tensor.sizes().begin())) return Error::Ok;
    const auto error = stock::resize_tensor(tensor, {sizes.data(), sizes.size()});
    PTERON_CHECK_OR_RETURN(error == stock::Error::Ok, static_cast<Error::Code>(error),
                           "cannot resize an output to %s", ours.tensor().describe().c_str());
    return Error::Ok;
  }

  std::string method_;
  StockNamedData named_data_;
  std::shared_ptr<void> shared_state_;
  std::unique_ptr<Delegate> delegate_;  // destroyed before what it borrows
  std::vector<EValue> values_;
  std::vector<std::vector<int64_t>> bounds_;
  std::vector<EValue*> pointers_;
};

class StockBackend final : public stock::BackendInterface {
 public:
  explicit StockBackend(pteron::BackendInterface& backend) : backend_(backend) {}

  bool is_available() const override { return backend_.is_available(nullptr); }

  stock::Result<stock::DelegateHandle*> init(
      stock::BackendInitContext& context, stock::FreeableBuffer* processed,
      stock::ArrayRef<stock::CompileSpec> compile_specs) const override {
    std::vector<CompileSpec> specs;
    for (const auto& spec : compile_specs) {
      specs.push_back(
          {spec.key, {static_cast<const uint8_t*>(spec.value.buffer), spec.value.nbytes}});
    }
    const char* const method = context.get_method_name();
    auto handle = std::make_unique<Handle>(method ? method : "", context.get_named_data_map());
    const Error error = handle->init(
        backend_, {static_cast<const uint8_t*>(processed->data()), processed->size()}, specs);
    if (!error.ok()) return to_stock("init", error);
    return handle.release();
  }

  stock::Error execute(stock::BackendExecutionContext&, stock::DelegateHandle* handle,
                       stock::Span<stock::EValue*> arguments) const override {
    const Error error = static_cast<Handle*>(handle)->execute(arguments);
    return error.ok() ? stock::Error::Ok : to_stock("execute", error);
  }

  void destroy(stock::DelegateHandle* handle) const override {
    delete static_cast<Handle*>(handle);
  }

 private:
  pteron::BackendInterface& backend_;
};

Error plug_in_backend(const char* library, const char* backend_id) {
  PTERON_CHECK_OR_RETURN(dlopen(library, RTLD_NOW | RTLD_GLOBAL), Error::AccessFailed, "%s",
                         dlerror());
  BackendInterface* const backend = find_backend(backend_id);
  PTERON_CHECK_OR_RETURN(backend, Error::NotFound, "%s registers no backend %s", library,
                         backend_id);
  // The stock registry keeps both pointers as long as the process.
  const auto error =
      stock::register_backend({(new std::string(backend_id))->c_str(), new StockBackend(*backend)});
  PTERON_CHECK_OR_RETURN(error == stock::Error::Ok, static_cast<Error::Code>(error),
                         "the stock runtime refuses backend %s", backend_id);
  return Error::Ok;
}

}  // namespace
}  // namespace pteron

int plug_in(const char* library, const char* backend_id) {
  const pteron::Error error = pteron::plug_in_backend(library, backend_id);
  if (!error.ok()) std::fprintf(stderr, "plug_in: %s\n", error.message().c_str());
  return static_cast<int>(error.code());
}
