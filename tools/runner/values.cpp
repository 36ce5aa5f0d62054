#include "pteron/tools/runner/values.h"

#include <cstring>
#include <string>

#include "pteron/runtime/core/element.h"

namespace pteron::runner {
namespace {

constexpr char kInputPrefix[] = "input_";

// Inputs that are not tensors: they keep their value at export.
bool is_given(const ValueMeta& meta) {
  return meta.kind == ValueKind::Tensor || meta.kind == ValueKind::Int ||
         meta.kind == ValueKind::Double || meta.kind == ValueKind::Bool;
}

EValue exported_value(const ValueMeta& meta) {
  switch (meta.kind) {
    case ValueKind::Int:
      return EValue(*std::get_if<int64_t>(&meta.value));
    case ValueKind::Double:
      return EValue(*std::get_if<double>(&meta.value));
    case ValueKind::Bool:
      return EValue(*std::get_if<bool>(&meta.value));
    case ValueKind::String:
      return EValue(std::string_view(*std::get_if<std::string>(&meta.value)));
    default:
      return EValue();
  }
}

// The index in "input_12"; SIZE_MAX for another name.
size_t input_number(const std::string& name) {
  if (name.rfind(kInputPrefix, 0) != 0) return SIZE_MAX;
  const std::string digits = name.substr(sizeof kInputPrefix - 1);
  if (digits.empty() || digits.size() > 6) return SIZE_MAX;
  if (digits.find_first_not_of("0123456789") != std::string::npos) return SIZE_MAX;
  return std::stoul(digits);
}

std::string list_inputs(const MethodMeta& meta) {
  std::string text;
  for (size_t i = 0; i < meta.inputs.size(); ++i) {
    if (!is_given(meta.inputs[i])) continue;
    text += "\n  " + (kInputPrefix + std::to_string(i)) + ": " + meta.inputs[i].describe();
  }
  return text.empty() ? " none" : text;
}

std::string list_names(const std::vector<NamedTensor>& tensors) {
  std::string text;
  for (const NamedTensor& tensor : tensors) text += (text.empty() ? "" : ", ") + tensor.name;
  return text.empty() ? "no tensors" : text;
}

// The view for each input, or null.
Result<std::vector<const View*>> match(const MethodMeta& meta,
                                       const std::vector<NamedTensor>& tensors) {
  std::vector<const View*> views(meta.inputs.size());
  bool numbered = true;
  for (const NamedTensor& tensor : tensors) numbered &= input_number(tensor.name) != SIZE_MAX;
  size_t position = 0;
  bool fits = true;
  for (const NamedTensor& tensor : tensors) {
    while (!numbered && position < views.size() && !is_given(meta.inputs[position])) ++position;
    const size_t index = numbered ? input_number(tensor.name) : position++;
    if (index >= views.size() || !is_given(meta.inputs[index])) {
      fits = false;
      continue;
    }
    views[index] = &tensor.view;
  }
  for (size_t i = 0; i < views.size(); ++i) fits &= !is_given(meta.inputs[i]) || views[i];
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument, "method \"%s\": found %s; expected%s",
                         meta.name.c_str(), list_names(tensors).c_str(), list_inputs(meta).c_str());
  return views;
}

// The scalar in a 0-d tensor, as the expected kind.
Result<EValue> scalar_of(size_t index, const ValueMeta& meta, const View& view) {
  const bool is_bool = view.dtype == ScalarType::Bool;
  const bool fits = meta.kind == ValueKind::Bool     ? is_bool
                    : meta.kind == ValueKind::Double ? !is_bool
                                                     : !is_bool && !is_floating(view.dtype);
  PTERON_CHECK_OR_RETURN(
      view.dim == 0 && fits && !is_complex(view.dtype), Error::InvalidArgument,
      "input %zu: found a %s tensor of rank %zu, expected %s in a tensor of rank 0", index,
      name_of(view.dtype), view.dim, meta.describe().c_str());
  if (meta.kind == ValueKind::Double) return EValue(load_one<double>(view.dtype, view.data));
  const int64_t value = load_one<int64_t>(view.dtype, view.data);
  return meta.kind == ValueKind::Bool ? EValue(value != 0) : EValue(value);
}

}  // namespace

// A copy in the method's layout. An invalid tensor keeps its layout, so that the method reports the
// error.
Error Inputs::add(size_t index, const ValueMeta& meta, const View* source) {
  if (meta.kind != ValueKind::Tensor) {
    if (!source) {
      values_.push_back(exported_value(meta));
      return Error::Ok;
    }
    PTERON_ASSIGN_OR_RETURN(EValue value, scalar_of(index, meta, *source));
    values_.push_back(value);
    return Error::Ok;
  }
  const Span<const int64_t> sizes =
      source ? source->shape() : Span<const int64_t>(meta.sizes.data(), meta.sizes.size());
  const bool same_rank = sizes.size() == meta.dim_order.size();
  const ScalarType dtype = source ? source->dtype : meta.dtype;
  Result<Tensor> made =
      same_rank
          ? Tensor::make(dtype, sizes, {meta.dim_order.data(), meta.dim_order.size()}, nullptr)
          : Tensor::make(dtype, sizes, nullptr);
  if (!made.ok()) return made.take_error();
  memory_.emplace_back(new std::byte[made->nbytes() + 1]());
  made->set_data(memory_.back().get(), made->nbytes());
  if (source) PTERON_RETURN_IF_ERROR(copy_elements(*source, view_of(*made)));
  values_.push_back(EValue(*made));
  return Error::Ok;
}

Result<Inputs> Inputs::from_tensors(const MethodMeta& meta,
                                    const std::vector<NamedTensor>& tensors) {
  PTERON_ASSIGN_OR_RETURN(const std::vector<const View*> views, match(meta, tensors));
  Inputs inputs;
  for (size_t i = 0; i < views.size(); ++i) {
    PTERON_RETURN_IF_ERROR(inputs.add(i, meta.inputs[i], views[i]));
  }
  return inputs;
}

Result<Inputs> Inputs::zeros(const MethodMeta& meta) {
  Inputs inputs;
  for (size_t i = 0; i < meta.inputs.size(); ++i) {
    PTERON_RETURN_IF_ERROR(inputs.add(i, meta.inputs[i], nullptr));
  }
  return inputs;
}

Result<std::vector<std::unique_ptr<std::byte[]>>> provide_output_memory(Method& method) {
  std::vector<std::unique_ptr<std::byte[]>> memory;
  for (size_t i = 0; i < method.outputs_size(); ++i) {
    const ValueMeta& meta = method.meta().outputs[i];
    if (meta.kind != ValueKind::Tensor || meta.planned || meta.constant) continue;
    std::unique_ptr<std::byte[]> bytes(new std::byte[meta.nbytes + 1]);
    Error error = method.set_output_data(i, bytes.get(), meta.nbytes);
    if (error == Error::InvalidState) continue;  // aliases another value
    if (!error.ok()) return error;
    memory.push_back(std::move(bytes));
  }
  return memory;
}

namespace {

// Collects the tensors of the file; scalars need their own memory.
class OutputCollector final {
 public:
  Error add(const std::string& name, const EValue& value) {
    const auto scalar = [&](ScalarType dtype, auto number) {
      return add_numbers(name, dtype, &number, 1, 0);
    };
    switch (value.value_kind()) {
      case ValueKind::None:
        return Error::Ok;
      case ValueKind::Int:
        return scalar(ScalarType::Long, value.to_int());
      case ValueKind::Double:
        return scalar(ScalarType::Double, value.to_double());
      case ValueKind::Bool:
        return scalar(ScalarType::Bool, value.to_bool());
      case ValueKind::String:
        metadata_.emplace_back(name, value.to_string());
        return Error::Ok;
      case ValueKind::IntList: {
        std::vector<int64_t> items;
        for (const EValue* item : value.to_int_list().items) items.push_back(item->to_int());
        return add_numbers(name, ScalarType::Long, items.data(), items.size(), 1);
      }
      case ValueKind::DoubleList: {
        const Span<const double> items = value.to_double_list().items;
        return add_numbers(name, ScalarType::Double, items.data(), items.size(), 1);
      }
      case ValueKind::BoolList: {
        const Span<const bool> items = value.to_bool_list().items;
        return add_numbers(name, ScalarType::Bool, items.data(), items.size(), 1);
      }
      case ValueKind::TensorList:
        return add_items(name, value.to_tensor_list().items);
      case ValueKind::OptionalTensorList:
        return add_items(name, value.to_optional_tensor_list().items);
      case ValueKind::Tensor:
        break;
    }
    const Tensor& tensor = value.tensor();
    PTERON_CHECK_OR_RETURN(tensor.device().type == DeviceType::CPU, Error::NotSupported,
                           "%s is on a device; lower the program so that its outputs are copied to "
                           "the host",
                           name.c_str());
    tensors_.push_back({name, view_of(tensor)});
    return Error::Ok;
  }

  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }

 private:
  Error add_items(const std::string& name, Span<EValue* const> items) {
    for (size_t j = 0; j < items.size(); ++j) {
      if (items[j]) PTERON_RETURN_IF_ERROR(add(name + "_" + std::to_string(j), *items[j]));
    }
    return Error::Ok;
  }

  Error add_numbers(const std::string& name, ScalarType dtype, const void* data, size_t count,
                    size_t dim) {
    const size_t nbytes = count * element_size(dtype);
    memory_.emplace_back(new std::byte[nbytes + 1]);
    if (nbytes > 0) std::memcpy(memory_.back().get(), data, nbytes);
    const int64_t sizes[] = {static_cast<int64_t>(count)};
    tensors_.push_back({name, contiguous_view(dtype, {sizes, dim}, memory_.back().get())});
    return Error::Ok;
  }

  std::vector<NamedTensor> tensors_;
  Metadata metadata_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

}  // namespace

Error write_outputs(const Method& method, AtomicFile& file) {
  OutputCollector collector;
  for (size_t i = 0; i < method.outputs_size(); ++i) {
    PTERON_RETURN_IF_ERROR(collector.add("output_" + std::to_string(i), method.get_output(i)));
  }
  return write_safetensors(collector.tensors(), collector.metadata(), file);
}

}  // namespace pteron::runner
