#include "pteron/runtime/module.h"

#include "pteron/runtime/core/catch_exceptions.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/runtime/program_reader/error_list.h"

namespace pteron {
namespace {

// "ids (0), mask (1)", or "0 to 3" without names.
std::string list_keys(const std::vector<ValueMeta>& values) {
  if (values.empty()) return "there are none";
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name.empty())
      return "they have numbers from 0 to " + std::to_string(values.size() - 1);
    text += (i ? ", " : "there are ") + values[i].name + " (" + std::to_string(i) + ")";
  }
  return text;
}

bool is_used_by(const std::string& backend, const MethodMeta& meta) {
  for (const DelegateMeta& delegate : meta.delegates) {
    if (delegate.backend_id == backend) return true;
  }
  return false;
}

// The value of an input that may be omitted, because the program does not read it.
EValue exported_value(const ValueMeta& meta) {
  if (const auto* const value = std::get_if<int64_t>(&meta.value)) return EValue(*value);
  if (const auto* const value = std::get_if<double>(&meta.value)) return EValue(*value);
  if (const auto* const value = std::get_if<bool>(&meta.value)) return EValue(*value);
  if (const auto* const value = std::get_if<std::string>(&meta.value)) {
    return EValue(std::string_view(*value));
  }
  return EValue();
}

// Orders named inputs. `is_given` is scratch memory, so that nothing is allocated.
Error put_in_order(const MethodMeta& meta, Span<const Module::NamedInput> named,
                   std::vector<EValue>* values, std::vector<char>* is_given_scratch) {
  ErrorList errors;
  std::vector<char>& is_given = *is_given_scratch;
  values->resize(meta.inputs.size());
  is_given.assign(meta.inputs.size(), false);
  for (const Module::NamedInput& input : named) {
    const Result<size_t> index = Module::Key(input.name).find(meta.inputs, "input");
    if (!index.ok()) {
      errors.add(index.error());
    } else if (is_given[*index]) {
      errors.add(Error::InvalidArgument, "input %s is given twice",
                 meta.inputs[*index].name.c_str());
    } else {
      is_given[*index] = true;
      (*values)[*index] = input.value;
    }
  }
  for (size_t i = 0; i < is_given.size(); ++i) {
    const ValueMeta& input = meta.inputs[i];
    if (is_given[i]) continue;
    if (input.kind == ValueKind::Tensor || input.symbolic) {
      errors.add(Error::InvalidArgument, "input %s (%s) is not given", input.name.c_str(),
                 input.describe().c_str());
    } else {
      (*values)[i] = exported_value(input);
    }
  }
  return errors.empty() ? Error(Error::Ok) : errors.to_error("method " + meta.name);
}

// Memory for unplanned outputs.
Result<std::vector<PlannedBuffer>> provide_outputs(Method* method) {
  std::vector<PlannedBuffer> memory;
  for (size_t i = 0; i < method->outputs_size(); ++i) {
    const ValueMeta& meta = method->meta().outputs[i];
    if (meta.kind != ValueKind::Tensor || meta.planned || meta.constant) continue;
    // An empty output needs an address too.
    PTERON_ASSIGN_OR_RETURN(PlannedBuffer buffer,
                            PlannedBuffer::allocate(meta.nbytes + 1, meta.device));
    Error error = method->set_output_data(i, buffer.data(), meta.nbytes);
    if (error == Error::InvalidState) continue;  // aliases another value
    if (!error.ok()) return error;
    memory.push_back(std::move(buffer));
  }
  return memory;
}

}  // namespace

Result<size_t> Module::Key::find(const std::vector<ValueMeta>& values, const char* what) const {
  if (!is_name_) {
    if (index_ < values.size()) return index_;
    return make_error(Error::NotFound, "there is no %s %zu; %s", what, index_,
                      list_keys(values).c_str());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!name_.empty() && values[i].name == name_) return i;
  }
  return make_error(Error::NotFound, "there is no %s \"%.*s\"; %s", what,
                    static_cast<int>(name_.size()), name_.data(), list_keys(values).c_str());
}

Result<EValue> Module::Outputs::get(Key key) const {
  PTERON_ASSIGN_OR_RETURN(const size_t index, key.find(method_->meta().outputs, "output"));
  return (*this)[index];
}

Result<Tensor> Module::Outputs::tensor(Key key) const {
  PTERON_ASSIGN_OR_RETURN(const size_t index, key.find(method_->meta().outputs, "output"));
  const EValue& value = (*this)[index];
  PTERON_CHECK_OR_RETURN(value.is_tensor(), Error::InvalidType,
                         "method %s: output %zu is %s, not a tensor", method_->name().c_str(),
                         index, value.kind());
  return value.tensor();
}

Module::Module(std::string path, Options options)
    : path_(std::move(path)), options_(std::move(options)) {}

Module::Module(std::shared_ptr<const Program> program, Options options)
    : options_(std::move(options)), program_(std::move(program)) {}

Error Module::load() {
  if (is_loaded_) return Error::Ok;
  if (!program_) {
    PTERON_ASSIGN_OR_RETURN(program_, Program::load(path_, options_.load));
  }
  return catch_exceptions([this]() -> Error {
    ErrorList errors;
    for (const auto& [backend, unused] : options_.load_method.backend_options) {
      bool is_used = false;
      for (const std::string& name : program_->method_names()) {
        PTERON_ASSIGN_OR_RETURN(const MethodMeta meta, program_->method_meta(name));
        is_used |= is_used_by(backend, meta);
      }
      if (is_used) continue;
      errors.add(Error::InvalidArgument, "there are options for backend %s, which no method uses",
                 backend.c_str());
    }
    PTERON_RETURN_IF_ERROR(errors.to_error("the module's options"));
    if (!options_.load_method.session) options_.load_method.session = program_->new_session();
    is_loaded_ = true;
    return Error::Ok;
  });
}

Result<std::shared_ptr<const Program>> Module::program() {
  PTERON_RETURN_IF_ERROR(load());
  return program_;
}

Result<std::vector<std::string>> Module::method_names() {
  PTERON_RETURN_IF_ERROR(load());
  return program_->method_names();
}

Result<MethodMeta> Module::method_meta(std::string_view method) {
  PTERON_RETURN_IF_ERROR(load());
  return program_->method_meta(method);
}

Error Module::load_method(std::string_view method) {
  Result<Loaded*> loaded = find(method);
  return loaded.ok() ? Error(Error::Ok) : loaded.take_error();
}

bool Module::is_method_loaded(std::string_view method) const {
  return methods_.find(method) != methods_.end();
}

bool Module::unload_method(std::string_view method) {
  const auto found = methods_.find(method);
  if (found == methods_.end()) return false;
  methods_.erase(found);
  return true;
}

Result<Module::Loaded*> Module::find(std::string_view name) {
  const auto found = methods_.find(name);
  if (__builtin_expect(found != methods_.end(), 1)) return &found->second;
  PTERON_RETURN_IF_ERROR(load());
  return catch_exceptions([&]() -> Result<Loaded*> {
    PTERON_ASSIGN_OR_RETURN(const MethodMeta meta, program_->method_meta(name));
    LoadMethodOptions options = options_.load_method;
    for (const auto& [backend, unused] : options_.load_method.backend_options) {
      if (!is_used_by(backend, meta)) options.backend_options.erase(backend);
    }
    Loaded loaded;
    PTERON_ASSIGN_OR_RETURN(loaded.method, program_->load_method(name, options));
    PTERON_ASSIGN_OR_RETURN(loaded.outputs, provide_outputs(loaded.method.get()));
    return &methods_.emplace(name, std::move(loaded)).first->second;
  });
}

Result<Module::Outputs> Module::execute(std::string_view method, const Inputs& inputs,
                                        const ExecuteOptions& options) {
  PTERON_RETURN_IF_ERROR(set_inputs(method, inputs));
  PTERON_ASSIGN_OR_RETURN(Loaded * loaded, find(method));
  PTERON_RETURN_IF_ERROR(loaded->method->execute(options));
  return Outputs(*loaded->method);
}

Result<Module::Outputs> Module::execute(std::string_view method) {
  PTERON_ASSIGN_OR_RETURN(Loaded * loaded, find(method));
  PTERON_RETURN_IF_ERROR(loaded->method->execute());
  return Outputs(*loaded->method);
}

bool Module::cancel(std::string_view method) {
  const auto found = methods_.find(method);
  return found != methods_.end() && found->second.method->cancel();
}

Error Module::set_input(std::string_view method, const EValue& value, Key key) {
  PTERON_ASSIGN_OR_RETURN(Loaded * loaded, find(method));
  PTERON_ASSIGN_OR_RETURN(const size_t index, key.find(loaded->method->meta().inputs, "input"));
  return loaded->method->set_input(index, value);
}

Error Module::set_inputs(std::string_view method, const Inputs& inputs) {
  PTERON_ASSIGN_OR_RETURN(Loaded * loaded, find(method));
  if (inputs.named().empty()) return loaded->method->set_inputs(inputs.values());
  PTERON_RETURN_IF_ERROR(catch_exceptions([&] {
    return put_in_order(loaded->method->meta(), inputs.named(), &loaded->inputs, &loaded->is_given);
  }));
  return loaded->method->set_inputs(loaded->inputs);
}

Error Module::set_output(std::string_view method, const Tensor& tensor, Key key) {
  PTERON_ASSIGN_OR_RETURN(Loaded * loaded, find(method));
  PTERON_ASSIGN_OR_RETURN(const size_t index, key.find(loaded->method->meta().outputs, "output"));
  return loaded->method->set_output_data(index, tensor.data(), tensor.capacity_nbytes());
}

Error Module::prepare(std::string_view method) {
  PTERON_ASSIGN_OR_RETURN(Loaded * loaded, find(method));
  return loaded->method->prepare();
}

Error Module::reset_state() {
  PTERON_RETURN_IF_ERROR(load());
  return options_.load_method.session->reset();
}

}  // namespace pteron
