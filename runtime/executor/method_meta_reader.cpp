#include "pteron/runtime/executor/method_meta_reader.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "pteron/runtime/program_reader/tensor_storage.h"

namespace pteron {
namespace {

using flatbuffers::uoffset_t;

std::string text_of(const flatbuffers::String* string) { return string ? string->str() : ""; }

ValueMeta read_tensor(const schema::Tensor& tensor) {
  ValueMeta meta;
  const TensorStorage storage = TensorStorage::of(tensor);
  const Tensor made = *make_tensor(tensor);  // was checked
  meta.kind = ValueKind::Tensor;
  meta.dtype = made.dtype();
  meta.sizes.assign(made.sizes().begin(), made.sizes().end());
  meta.dim_order.assign(made.dim_order().begin(), made.dim_order().end());
  meta.dynamism = made.dynamism();
  meta.device = made.device();
  meta.nbytes = made.nbytes();
  meta.planned = storage.planned;
  meta.constant = storage.is_constant();
  return meta;
}

ValueMeta read_value(const schema::EValue& value) {
  using schema::Value;
  static constexpr ValueKind kKinds[] = {
      ValueKind::None,     ValueKind::None,       ValueKind::Int,
      ValueKind::Bool,     ValueKind::Double,     ValueKind::Tensor,
      ValueKind::String,   ValueKind::IntList,    ValueKind::DoubleList,
      ValueKind::BoolList, ValueKind::TensorList, ValueKind::OptionalTensorList};
  static_assert(std::size(kKinds) == static_cast<size_t>(Value::MAX) + 1);
  ValueMeta meta;
  meta.kind = kKinds[static_cast<size_t>(value.value_type())];  // was checked
  switch (value.value_type()) {
    case Value::Tensor:
      return read_tensor(*value.value_as_Tensor());
    case Value::Int:
      meta.value = value.value_as_Int()->value();
      break;
    case Value::Bool:
      meta.value = value.value_as_Bool()->value();
      break;
    case Value::Double:
      meta.value = value.value_as_Double()->value();
      break;
    case Value::String:
      meta.value = value.value_as_String()->value()->str();
      break;
    default:
      break;
  }
  return meta;
}

void read_ends(const schema::Method& method, MethodMeta* meta) {
  const std::vector<bool> used = used_values(method);
  for (const int32_t index : *method.inputs()) {
    ValueMeta input = read_value(*method.values()->Get(index));
    const bool is_scalar = input.kind == ValueKind::Int || input.kind == ValueKind::Double ||
                           input.kind == ValueKind::Bool;
    input.symbolic = is_scalar && used[index];
    meta->inputs.push_back(std::move(input));
  }
  for (const int32_t index : *method.outputs()) {
    meta->outputs.push_back(read_value(*method.values()->Get(index)));
  }
}

using Names = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

// No names at all if they are not unique.
void read_names(const Names* names, std::vector<ValueMeta>* values) {
  if (!names || names->size() != values->size()) return;
  std::set<std::string_view> unique;
  for (const flatbuffers::String* const name : *names) unique.insert(name->string_view());
  if (unique.size() != values->size()) return;
  for (uoffset_t i = 0; i < names->size(); ++i) (*values)[i].name = names->Get(i)->str();
}

void read_pools(const schema::Method& method, MethodMeta* meta) {
  const auto& sizes = *method.buffer_sizes();
  meta->pools.resize(sizes.size() - 1);
  for (uoffset_t i = 1; i < sizes.size(); ++i) {
    meta->pools[i - 1].nbytes = static_cast<size_t>(sizes[i]);
  }
  if (!method.buffer_devices()) return;
  for (const schema::BufferDevice* const entry : *method.buffer_devices()) {
    const auto type = static_cast<DeviceType>(entry->device_type());
    if (type == DeviceType::CPU) continue;
    meta->pools[entry->buffer_index() - 1].device = {type, entry->device_index()};
  }
}

// Mutable buffers and constants.
void read_tensors(const schema::Method& method, MethodMeta* meta) {
  std::map<std::string, MutableBufferMeta> buffers;
  std::map<std::pair<uint32_t, std::string_view>, size_t> constants;
  for (const schema::EValue* const value : *method.values()) {
    const schema::Tensor* const tensor = value->value_as_Tensor();
    if (!tensor) continue;
    const TensorStorage storage = TensorStorage::of(*tensor);
    const Tensor made = *make_tensor(*tensor);
    if (storage.is_constant()) {
      const bool in_file = storage.contents == TensorStorage::Contents::InFile;
      size_t& nbytes = constants[{storage.data_index, in_file ? "" : storage.name}];
      nbytes = std::max(nbytes, made.nbytes());
    }
    if (!storage.is_mutable_buffer()) continue;
    MutableBufferMeta buffer;
    buffer.name = std::string(storage.name);
    buffer.dtype = made.dtype();
    buffer.sizes.assign(made.sizes().begin(), made.sizes().end());
    buffer.device = made.device();
    buffer.nbytes = made.nbytes();
    buffer.has_initial_value = storage.contents != TensorStorage::Contents::None;
    buffers.emplace(buffer.name, buffer);
  }
  for (auto& [name, buffer] : buffers) meta->mutable_buffers.push_back(std::move(buffer));
  for (const auto& [key, nbytes] : constants) meta->constant_nbytes += nbytes;
}

void read_delegates(const ProgramData& data, const schema::Method& method, MethodMeta* meta) {
  if (!method.delegates()) return;
  for (const schema::Delegate* const delegate : *method.delegates()) {
    DelegateMeta entry;
    entry.backend_id = delegate->id()->string_view();
    entry.processed = data.processed(*delegate);
    if (delegate->compile_specs()) {
      for (const schema::CompileSpec* const spec : *delegate->compile_specs()) {
        CompileSpec borrowed{spec->key()->string_view(), {}};
        if (spec->value()) borrowed.value = {spec->value()->data(), spec->value()->size()};
        entry.compile_specs.push_back(borrowed);
      }
    }
    meta->delegates.push_back(std::move(entry));
  }
}

void read_instructions(const schema::Method& method, MethodMeta* meta) {
  std::set<std::string> operators;
  for (const schema::Chain* const chain : *method.chains()) {
    meta->num_instructions += chain->instructions()->size();
    for (const schema::Instruction* const instruction : *chain->instructions()) {
      const schema::KernelCall* const call = instruction->call_as_KernelCall();
      if (call) operators.insert(qualified_name(*method.operators()->Get(call->operator_index())));
    }
  }
  meta->operators.assign(operators.begin(), operators.end());
}

}  // namespace

std::string qualified_name(const schema::Operator& op) {
  std::string name = op.name()->str();
  if (op.overload() && op.overload()->size() > 0) name += "." + op.overload()->str();
  return name;
}

std::vector<bool> used_values(const schema::Method& method) {
  std::vector<bool> used(method.values()->size());
  const auto use = [&](int32_t index) {
    if (used[index]) return;
    used[index] = true;
    const schema::EValue& value = *method.values()->Get(index);
    const auto use_items = [&](const auto* items) {
      if (!items) return;
      for (const int64_t item : *items) {
        if (item >= 0) used[item] = true;
      }
    };
    if (const auto* const list = value.value_as_IntList()) use_items(list->items());
    if (const auto* const list = value.value_as_TensorList()) use_items(list->items());
    if (const auto* const list = value.value_as_OptionalTensorList()) use_items(list->items());
  };
  for (const schema::Chain* const chain : *method.chains()) {
    for (const schema::Instruction* const instruction : *chain->instructions()) {
      const flatbuffers::Vector<int32_t>* arguments = nullptr;
      if (const auto* const call = instruction->call_as_KernelCall()) arguments = call->args();
      if (const auto* const call = instruction->call_as_DelegateCall()) arguments = call->args();
      if (arguments) {
        for (const int32_t index : *arguments) use(index);
      }
      if (const auto* const move = instruction->call_as_MoveCall()) use(move->from_index());
      if (const auto* const jump = instruction->call_as_JumpFalseCall()) {
        use(jump->condition_index());
      }
    }
  }
  return used;
}

MethodMeta read_method_meta(const ProgramData& data, const schema::Method& method) {
  MethodMeta meta;
  meta.name = method.name()->str();
  meta.num_values = method.values()->size();
  read_ends(method, &meta);
  read_pools(method, &meta);
  read_tensors(method, &meta);
  read_delegates(data, method, &meta);
  read_instructions(method, &meta);
  if (const schema::ContainerTypes* const types = method.container_types()) {
    meta.input_tree = text_of(types->inputs());
    meta.output_tree = text_of(types->outputs());
    read_names(types->input_names(), &meta.inputs);
    read_names(types->output_names(), &meta.outputs);
  }
  return meta;
}

}  // namespace pteron
