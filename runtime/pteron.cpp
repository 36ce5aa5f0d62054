#include "pteron/runtime/pteron.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pteron/runtime/c_api.h"
#include "pteron/runtime/core/catch_exceptions.h"
#include "pteron/runtime/module.h"

using namespace pteron;

struct pteron_module {
  struct Called {
    MethodMeta meta;
    std::vector<EValue> inputs;              // scratch memory
    std::optional<Module::Outputs> outputs;  // of the last run, if it succeeded
  };

  explicit pteron_module(std::shared_ptr<const Program> program)
      : program(std::move(program)), names(this->program->method_names()), module(this->program) {}

  // The method's description; it is loaded if `load` is set.
  Result<Called*> find(const char* method, bool load) {
    PTERON_CHECK_OR_RETURN(method, Error::InvalidArgument, "`method` is null");
    auto found = methods.find(method);
    if (found == methods.end()) {
      PTERON_ASSIGN_OR_RETURN(MethodMeta meta, program->method_meta(method));
      found = methods.emplace(method, Called{std::move(meta), {}, std::nullopt}).first;
    }
    if (load && !module.is_method_loaded(method)) {
      const std::lock_guard<std::mutex> lock(mutex);
      PTERON_RETURN_IF_ERROR(module.load_method(method));
    }
    return &found->second;
  }

  const std::shared_ptr<const Program> program;
  const std::vector<std::string> names;
  Module module;
  std::map<std::string, Called, std::less<>> methods;
  std::mutex mutex;  // held while methods are added to `module`, and by pteron_cancel()
};

namespace {

thread_local std::string last_error;  // NOLINT: of this thread

// Runs a function that returns an Error; keeps its message.
template <typename Body>
pteron_status call(const Body& body) {
  const Error error = catch_exceptions(body);
  if (error.ok()) return 0;
  try {
    last_error = error.message();
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return error.code();
}

#define CHECK_NOT_NULL(argument) \
  PTERON_CHECK_OR_RETURN((argument) != nullptr, Error::InvalidArgument, "`" #argument "` is null")

Error read_strings(const char* const* strings, size_t size, const char* what,
                   std::vector<std::string>* out) {
  PTERON_CHECK_OR_RETURN(strings || size == 0, Error::InvalidArgument, "`%s` is null", what);
  for (size_t i = 0; i < size; ++i) {
    PTERON_CHECK_OR_RETURN(strings[i], Error::InvalidArgument, "`%s[%zu]` is null", what, i);
    out->emplace_back(strings[i]);
  }
  return Error::Ok;
}

Error check_flag(int32_t flag, const char* what) {
  PTERON_CHECK_OR_RETURN(flag == 0 || flag == 1, Error::InvalidArgument,
                         "`%s` is %d, expected 0 or 1", what, flag);
  return Error::Ok;
}

// Structures of a later version may mean something by it.
Error check_reserved(uint64_t reserved, const char* what) {
  PTERON_CHECK_OR_RETURN(reserved == 0, Error::InvalidArgument,
                         "`reserved` of %s is not 0; set the whole structure to zero first", what);
  return Error::Ok;
}

Result<LoadOptions> read_options(const pteron_load_options* given) {
  LoadOptions options;
  if (!given) return options;
  PTERON_RETURN_IF_ERROR(check_reserved(given->reserved, "pteron_load_options"));
  PTERON_RETURN_IF_ERROR(check_flag(given->restrict_backends, "restrict_backends"));
  PTERON_CHECK_OR_RETURN(given->verify_digests >= 0 && given->verify_digests <= 2,
                         Error::InvalidArgument, "`verify_digests` is %d, expected 0, 1 or 2",
                         given->verify_digests);
  PTERON_RETURN_IF_ERROR(
      read_strings(given->data_paths, given->data_paths_size, "data_paths", &options.data_paths));
  if (given->restrict_backends) {
    PTERON_RETURN_IF_ERROR(read_strings(given->allowed_backends, given->allowed_backends_size,
                                        "allowed_backends", &options.allowed_backends.emplace()));
  }
  if (given->verify_digests == 1) options.verification = Verification::Full;
  if (given->verify_digests == 2) options.verification = Verification::Required;
  if (given->planned_bytes) options.limits.planned_bytes = given->planned_bytes;
  if (given->load_bytes) options.limits.load_bytes = given->load_bytes;
  if (given->instructions) options.limits.instructions = given->instructions;
  if (given->run_time != 0) options.limits.run_time = given->run_time;
  return options;
}

Result<Tensor> read_tensor(const pteron_value& value) {
  const auto dtype = static_cast<ScalarType>(value.dtype);
  PTERON_CHECK_OR_RETURN(value.dtype >= 0 && value.dtype <= INT8_MAX && is_valid(dtype),
                         Error::InvalidType, "dtype %d is none of pteron_dtype", value.dtype);
  PTERON_CHECK_OR_RETURN(
      value.device_type == PTERON_DEVICE_CPU || value.device_type == PTERON_DEVICE_CUDA,
      Error::InvalidArgument, "device type %d is none of PTERON_DEVICE_*", value.device_type);
  const int32_t last = value.device_type == PTERON_DEVICE_CPU ? 0 : INT8_MAX;
  PTERON_CHECK_OR_RETURN(value.device_index >= 0 && value.device_index <= last,
                         Error::InvalidArgument, "device index %d, expected 0 to %d",
                         value.device_index, last);
  PTERON_CHECK_OR_RETURN(value.rank <= kMaxTensorDims, Error::InvalidArgument,
                         "rank %zu, expected at most %zu", value.rank, kMaxTensorDims);
  PTERON_CHECK_OR_RETURN(value.sizes || value.rank == 0, Error::InvalidArgument,
                         "`sizes` is null, and the rank is %zu", value.rank);
  const Device device{static_cast<DeviceType>(value.device_type),
                      static_cast<int8_t>(value.device_index)};
  const Span<const int64_t> sizes(value.sizes, value.rank);
  void* const data = const_cast<void*>(value.data);
  PTERON_ASSIGN_OR_RETURN(
      Tensor tensor, value.dim_order
                         ? Tensor::make(dtype, sizes, {value.dim_order, value.rank}, data, device)
                         : Tensor::make(dtype, sizes, data, device));
  PTERON_CHECK_OR_RETURN(tensor.nbytes() == value.nbytes, Error::InvalidArgument,
                         "%s has %zu bytes, and `nbytes` is %zu", tensor.describe().c_str(),
                         tensor.nbytes(), value.nbytes);
  PTERON_CHECK_OR_RETURN(value.data || value.nbytes == 0, Error::InvalidArgument,
                         "`data` is null, and %s has %zu bytes", tensor.describe().c_str(),
                         value.nbytes);
  return tensor;
}

Result<EValue> read_value(const pteron_value& value) {
  PTERON_RETURN_IF_ERROR(check_reserved(value.reserved, "pteron_value"));
  switch (value.kind) {
    case PTERON_KIND_NONE:
      return EValue();
    case PTERON_KIND_INT:
      return EValue(value.integer);
    case PTERON_KIND_DOUBLE:
      return EValue(value.number);
    case PTERON_KIND_BOOL:
      return EValue(value.integer != 0);
    case PTERON_KIND_TENSOR: {
      PTERON_ASSIGN_OR_RETURN(Tensor tensor, read_tensor(value));
      return EValue(std::move(tensor));
    }
    case PTERON_KIND_STRING:
      PTERON_CHECK_OR_RETURN(value.data || value.nbytes == 0, Error::InvalidArgument,
                             "`data` of a string is null");
      return EValue(std::string_view(static_cast<const char*>(value.data), value.nbytes));
    default:
      return make_error(Error::InvalidArgument, "kind %d cannot be an input", value.kind);
  }
}

pteron_kind kind_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::None:
      return PTERON_KIND_NONE;
    case ValueKind::Int:
      return PTERON_KIND_INT;
    case ValueKind::Double:
      return PTERON_KIND_DOUBLE;
    case ValueKind::Bool:
      return PTERON_KIND_BOOL;
    case ValueKind::Tensor:
      return PTERON_KIND_TENSOR;
    case ValueKind::String:
      return PTERON_KIND_STRING;
    default:
      return PTERON_KIND_LIST;
  }
}

// Borrows sizes and data of `value`.
void write_value(const EValue& value, pteron_value* out) {
  *out = {};
  out->kind = kind_of(value.value_kind());
  if (value.is_int()) out->integer = value.to_int();
  if (value.is_bool()) out->integer = value.to_bool();
  if (value.is_double()) out->number = value.to_double();
  if (value.is_string()) {
    out->data = value.to_string().data();
    out->nbytes = value.to_string().size();
  }
  if (!value.is_tensor()) return;
  const Tensor& tensor = value.tensor();
  out->dtype = static_cast<pteron_dtype>(tensor.dtype());
  out->device_type = static_cast<int32_t>(tensor.device().type);
  out->device_index = tensor.device().index;
  out->sizes = tensor.sizes().data();
  out->dim_order = tensor.dim_order().data();
  out->rank = tensor.dim();
  out->data = tensor.data();
  out->nbytes = tensor.nbytes();
}

// The value of output `index` of the last run.
Result<const EValue*> find_output(pteron_module* module, const char* method, size_t index) {
  CHECK_NOT_NULL(module);
  PTERON_ASSIGN_OR_RETURN(pteron_module::Called * called, module->find(method, false));
  PTERON_CHECK_OR_RETURN(called->outputs, Error::InvalidState,
                         "method %s has not run, or its last run failed: execute it first", method);
  PTERON_ASSIGN_OR_RETURN(const size_t found,
                          Module::Key(index).find(called->meta.outputs, "output"));
  return &(*called->outputs)[found];
}

// What `function` returns for the items of a list.
template <typename Function>
Error with_items(const EValue& list, const Function& function) {
  if (list.is_int_list()) return function(list.to_int_list().items);
  if (list.is_double_list()) return function(list.to_double_list().items);
  if (list.is_bool_list()) return function(list.to_bool_list().items);
  if (list.is_tensor_list()) return function(list.to_tensor_list().items);
  if (list.is_optional_tensor_list()) return function(list.to_optional_tensor_list().items);
  return make_error(Error::InvalidType, "the output is %s, not a list", list.kind());
}

void write_item(double item, pteron_value* out) { write_value(EValue(item), out); }
void write_item(bool item, pteron_value* out) { write_value(EValue(item), out); }
void write_item(const EValue* item, pteron_value* out) {
  item ? write_value(*item, out) : write_value(EValue(), out);
}

Error write_info(const std::vector<ValueMeta>& values, size_t index, const char* what,
                 pteron_info* info) {
  CHECK_NOT_NULL(info);
  PTERON_ASSIGN_OR_RETURN(const size_t found, Module::Key(index).find(values, what));
  const ValueMeta& meta = values[found];
  *info = {};
  info->name = meta.name.c_str();
  info->kind = kind_of(meta.kind);
  if (meta.kind != ValueKind::Tensor) return Error::Ok;
  info->dtype = static_cast<pteron_dtype>(meta.dtype);
  info->device_type = static_cast<int32_t>(meta.device.type);
  info->device_index = meta.device.index;
  info->sizes = meta.sizes.data();
  info->dim_order = meta.dim_order.data();
  info->rank = meta.sizes.size();
  info->nbytes = meta.nbytes;
  info->dynamic = meta.dynamism != ShapeDynamism::Static;
  return Error::Ok;
}

// A new handle over what `load` returns.
template <typename Load>
pteron_status make_module(pteron_module** module, const Load& load) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(module);
    PTERON_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, load());
    *module = new pteron_module(std::move(program));
    return Error::Ok;
  });
}

}  // namespace

uint32_t pteron_abi_version() { return PTERON_ABI_VERSION; }
const char* pteron_version() { return PTERON_VERSION; }
const char* pteron_status_name(pteron_status status) {
  return Error::name(static_cast<Error::Code>(status));
}
const char* pteron_last_error() { return last_error.c_str(); }
const char* pteron_dtype_name(pteron_dtype dtype) {
  return name_of(static_cast<ScalarType>(dtype == static_cast<int8_t>(dtype) ? dtype : -1));
}
size_t pteron_dtype_size(pteron_dtype dtype) {
  return element_size(static_cast<ScalarType>(dtype == static_cast<int8_t>(dtype) ? dtype : -1));
}

pteron_status pteron::load_for_c(const char* path, const pteron_load_options* options,
                                 const std::function<Result<LoadOptions>(LoadOptions)>& change,
                                 pteron_module** module) {
  return make_module(module, [&]() -> Result<std::shared_ptr<const Program>> {
    CHECK_NOT_NULL(path);
    PTERON_ASSIGN_OR_RETURN(LoadOptions load, read_options(options));
    PTERON_ASSIGN_OR_RETURN(load, change(std::move(load)));
    return Program::load(path, load);
  });
}

pteron_status pteron_load(const char* path, const pteron_load_options* options,
                          pteron_module** module) {
  const auto unchanged = [](LoadOptions load) -> Result<LoadOptions> { return load; };
  return load_for_c(path, options, unchanged, module);
}

pteron_status pteron_load_bytes(const void* bytes, size_t nbytes,
                                const pteron_load_options* options, pteron_module** module) {
  return make_module(module, [&]() -> Result<std::shared_ptr<const Program>> {
    CHECK_NOT_NULL(bytes);
    PTERON_ASSIGN_OR_RETURN(const LoadOptions load, read_options(options));
    return Program::load({static_cast<const uint8_t*>(bytes), nbytes}, nullptr, load);
  });
}

pteron_status pteron_clone(const pteron_module* module, pteron_module** clone) {
  return make_module(clone, [&]() -> Result<std::shared_ptr<const Program>> {
    CHECK_NOT_NULL(module);
    return module->program;
  });
}

void pteron_free(pteron_module* module) { delete module; }

const char* pteron_method_name(const pteron_module* module, size_t index) {
  return module && index < module->names.size() ? module->names[index].c_str() : nullptr;
}

pteron_status pteron_load_method(pteron_module* module, const char* method) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(module);
    PTERON_ASSIGN_OR_RETURN(pteron_module::Called * called, module->find(method, true));
    return (void)called, Error::Ok;
  });
}

pteron_status pteron_sizes(pteron_module* module, const char* method, size_t* inputs,
                           size_t* outputs) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(module);
    CHECK_NOT_NULL(inputs);
    CHECK_NOT_NULL(outputs);
    PTERON_ASSIGN_OR_RETURN(pteron_module::Called * called, module->find(method, false));
    *inputs = called->meta.inputs.size();
    *outputs = called->meta.outputs.size();
    return Error::Ok;
  });
}

pteron_status pteron_input_info(pteron_module* module, const char* method, size_t index,
                                pteron_info* info) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(module);
    PTERON_ASSIGN_OR_RETURN(pteron_module::Called * called, module->find(method, false));
    return write_info(called->meta.inputs, index, "input", info);
  });
}

pteron_status pteron_output_info(pteron_module* module, const char* method, size_t index,
                                 pteron_info* info) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(module);
    PTERON_ASSIGN_OR_RETURN(pteron_module::Called * called, module->find(method, false));
    return write_info(called->meta.outputs, index, "output", info);
  });
}

pteron_status pteron_execute(pteron_module* module, const char* method, const pteron_value* inputs,
                             size_t inputs_size, const pteron_execute_options* options) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(module);
    PTERON_CHECK_OR_RETURN(inputs || inputs_size == 0, Error::InvalidArgument,
                           "`inputs` is null, and `inputs_size` is %zu", inputs_size);
    ExecuteOptions execute;
    if (options) {
      PTERON_RETURN_IF_ERROR(check_reserved(options->reserved, "pteron_execute_options"));
      if (options->timeout != 0) execute.timeout = options->timeout;
    }
    PTERON_ASSIGN_OR_RETURN(pteron_module::Called * called, module->find(method, true));
    PTERON_CHECK_OR_RETURN(inputs_size == called->meta.inputs.size(), Error::InvalidArgument,
                           "method %s has %zu inputs, and `inputs_size` is %zu", method,
                           called->meta.inputs.size(), inputs_size);
    called->inputs.clear();
    for (size_t i = 0; i < inputs_size; ++i) {
      Result<EValue> value = read_value(inputs[i]);
      if (!value.ok()) {
        return value.take_error().with_context("input " + std::to_string(i) + " (" +
                                               called->meta.inputs[i].name + ")");
      }
      called->inputs.push_back(*value);
    }
    called->outputs.reset();
    PTERON_ASSIGN_OR_RETURN(called->outputs,
                            module->module.execute(method, called->inputs, execute));
    return Error::Ok;
  });
}

pteron_status pteron_output(pteron_module* module, const char* method, size_t index,
                            pteron_value* output) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(output);
    PTERON_ASSIGN_OR_RETURN(const EValue* value, find_output(module, method, index));
    write_value(*value, output);
    return Error::Ok;
  });
}

pteron_status pteron_output_size(pteron_module* module, const char* method, size_t index,
                                 size_t* items) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(items);
    PTERON_ASSIGN_OR_RETURN(const EValue* list, find_output(module, method, index));
    return with_items(*list, [&](const auto& found) -> Error {
      *items = found.size();
      return Error::Ok;
    });
  });
}

pteron_status pteron_output_item(pteron_module* module, const char* method, size_t index,
                                 size_t item, pteron_value* value) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(value);
    PTERON_ASSIGN_OR_RETURN(const EValue* list, find_output(module, method, index));
    return with_items(*list, [&](const auto& items) -> Error {
      PTERON_CHECK_OR_RETURN(item < items.size(), Error::NotFound,
                             "output %zu has no item %zu; it has %zu", index, item, items.size());
      write_item(items[item], value);
      return Error::Ok;
    });
  });
}

pteron_status pteron_set_output(pteron_module* module, const char* method, size_t index, void* data,
                                size_t nbytes) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(module);
    CHECK_NOT_NULL(data);
    PTERON_ASSIGN_OR_RETURN(pteron_module::Called * called, module->find(method, true));
    PTERON_ASSIGN_OR_RETURN(const size_t found,
                            Module::Key(index).find(called->meta.outputs, "output"));
    const ValueMeta& meta = called->meta.outputs[found];
    PTERON_CHECK_OR_RETURN(meta.kind == ValueKind::Tensor, Error::InvalidType,
                           "output %zu is %s, not a tensor", index, name_of(meta.kind));
    PTERON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::make(meta.dtype, meta.sizes, data, meta.device));
    tensor.set_data(data, nbytes);
    PTERON_RETURN_IF_ERROR(module->module.set_output(method, tensor, found));
    called->outputs.reset();
    return Error::Ok;
  });
}

pteron_status pteron_cancel(pteron_module* module, const char* method, int32_t* cancelled) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(module);
    CHECK_NOT_NULL(method);
    const std::lock_guard<std::mutex> lock(module->mutex);
    const bool was_running = module->module.cancel(method);
    if (cancelled) *cancelled = was_running;
    return Error::Ok;
  });
}

pteron_status pteron_reset_state(pteron_module* module) {
  return call([&]() -> Error {
    CHECK_NOT_NULL(module);
    return module->module.reset_state();
  });
}
