#include "pteron/runtime/program_reader/structure_limits.h"

#include <algorithm>
#include <cstdint>

namespace pteron {
namespace {

// For writers that deduplicate strings.
constexpr size_t kSharedNbytes = size_t{1} << 20;

// Total bytes of vectors and strings, counted once per reference. Their number is limited by that
// of tables, so the sum cannot overflow.
class ListedBytes final {
 public:
  template <typename T>
  void add(const flatbuffers::Vector<T>* list) {
    if (list) nbytes_ += uint64_t{list->size()} * sizeof(T);
  }
  void add(const flatbuffers::String* text) {
    if (text) nbytes_ += text->size();
  }
  template <typename T, typename Add>
  static void for_each(const flatbuffers::Vector<flatbuffers::Offset<T>>* tables, const Add& add) {
    if (!tables) return;
    for (const T* const table : *tables) add(*table);
  }

  void add(const schema::EValue& value) {
    if (const auto* const text = value.value_as_String()) add(text->value());
    if (const auto* const list = value.value_as_IntList()) add(list->items());
    if (const auto* const list = value.value_as_DoubleList()) add(list->items());
    if (const auto* const list = value.value_as_BoolList()) add(list->items());
    if (const auto* const list = value.value_as_TensorList()) add(list->items());
    if (const auto* const list = value.value_as_OptionalTensorList()) add(list->items());
    const schema::Tensor* const tensor = value.value_as_Tensor();
    if (!tensor) return;
    add(tensor->sizes());
    add(tensor->dim_order());
    if (tensor->extra()) add(tensor->extra()->fully_qualified_name());
  }

  void add(const schema::Instruction& instruction) {
    if (const auto* const call = instruction.call_as_KernelCall()) add(call->args());
    if (const auto* const call = instruction.call_as_DelegateCall()) add(call->args());
  }

  void add(const schema::Method& method) {
    add(method.name());
    add(method.inputs());
    add(method.outputs());
    add(method.buffer_sizes());
    if (const schema::ContainerTypes* const types = method.container_types()) {
      add(types->inputs());
      add(types->outputs());
      for (const auto* const names : {types->input_names(), types->output_names()}) {
        if (!names) continue;
        for (const flatbuffers::String* const name : *names) add(name);
      }
    }
    for_each(method.values(), [&](const schema::EValue& value) { add(value); });
    for_each(method.chains(), [&](const schema::Chain& chain) {
      for_each(chain.instructions(), [&](const schema::Instruction& one) { add(one); });
    });
    for_each(method.operators(), [&](const schema::Operator& op) {
      add(op.name());
      add(op.overload());
    });
    for_each(method.delegates(), [&](const schema::Delegate& delegate) {
      add(delegate.id());
      // Values are handed on as they are.
      for_each(delegate.compile_specs(), [&](const schema::CompileSpec& spec) { add(spec.key()); });
    });
  }

  bool is_within(size_t structure_nbytes) const {
    return nbytes_ <= std::min(structure_nbytes + kSharedNbytes, kMaxListedNbytes);
  }

 private:
  uint64_t nbytes_ = 0;
};

}  // namespace

bool is_within_limits(const schema::Program& program, size_t nbytes) {
  ListedBytes listed;
  ListedBytes::for_each(program.methods(),
                        [&](const schema::Method& method) { listed.add(method); });
  ListedBytes::for_each(program.named_data(),
                        [&](const schema::NamedData& data) { listed.add(data.key()); });
  return listed.is_within(nbytes);
}

bool is_within_limits(const schema::TensorData& data, size_t nbytes) {
  ListedBytes listed;
  ListedBytes::for_each(data.named_data(), [&](const schema::TensorDataEntry& entry) {
    listed.add(entry.key());
    if (!entry.tensor_layout()) return;
    listed.add(entry.tensor_layout()->sizes());
    listed.add(entry.tensor_layout()->dim_order());
  });
  return listed.is_within(nbytes);
}

}  // namespace pteron
