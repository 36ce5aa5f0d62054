// Method::prepare(): saves the state, runs while delegates prepare, restores the state.
#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/executor/method_state.h"
#include "pteron/runtime/program_reader/error_list.h"

namespace pteron {
namespace {

// Device memory saved on the host: a KV cache may fill half of a GPU.
struct SavedBytes {
  void* data;
  size_t nbytes;
  Device device;
  std::unique_ptr<uint8_t[]> copy;

  Error save() {
    copy.reset(new uint8_t[nbytes]);
    if (device.type == DeviceType::CPU) return std::memcpy(copy.get(), data, nbytes), Error::Ok;
    PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, device_allocator_of(device));
    return allocator->copy(copy.get(), Device{}, data, device, nbytes, Wait::Yes);
  }

  Error restore() const { return copy_to_device(data, {copy.get(), nbytes}, device); }
};

bool lies_in(const Tensor& tensor, const void* memory, size_t nbytes) {
  const auto data = reinterpret_cast<uintptr_t>(tensor.data());
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  return data >= begin && data < begin + nbytes;
}

}  // namespace

struct Method::State::Preparation {
  ErrorList errors;
  std::set<const Instruction*> failed;  // called once, also in a loop
};

Error Method::State::prepare() {
  if (num_missing > 0) return explain_missing();
  const bool any = std::any_of(delegates.begin(), delegates.end(),
                               [](const auto& delegate) { return delegate->can_prepare(); });
  if (!any) return Error::Ok;

  std::vector<SavedBytes> state;
  for (Session::Buffer* const buffer : mutable_buffers) {
    const Tensor& tensor = Session::tensor(*buffer);
    state.push_back({tensor.data(), tensor.nbytes(), tensor.device(), nullptr});
  }
  for (const InitialValue& initial : initial_values) {
    state.push_back({initial.destination, initial.bytes.size(), initial.device, nullptr});
  }
  for (const size_t index : written_inputs) {
    const Tensor& tensor = inputs[index].value->tensor();
    state.push_back({tensor.data(), tensor.nbytes(), tensor.device(), nullptr});
  }
  for (SavedBytes& saved : state) PTERON_RETURN_IF_ERROR(saved.save());

  Preparation asked;
  preparation = &asked;
  Error error = execute();
  preparation = nullptr;
  for (const SavedBytes& saved : state) {
    Error restored = saved.restore();
    if (error.ok()) error = std::move(restored);
  }
  PTERON_RETURN_IF_ERROR(std::move(error));
  return asked.errors.to_error("method " + meta.name + " runs, but is not prepared in full");
}

void Method::State::prepare_delegate(const Instruction& instruction,
                                     BackendExecutionContext& context) {
  if (!instruction.delegate->can_prepare() || preparation->failed.count(&instruction) > 0) return;
  const size_t count = instruction.arguments.size();
  const std::unique_ptr<bool[]> fixed(new bool[count]);
  for (size_t i = 0; i < count; ++i) fixed[i] = is_fixed(*instruction.arguments[i]);
  Error error = instruction.delegate->prepare(context, instruction.arguments, {fixed.get(), count});
  if (error.ok()) return;
  preparation->failed.insert(&instruction);
  const auto index = static_cast<size_t>(&instruction - instructions.data());
  preparation->errors.add(std::move(error).with_context(
      "instruction " + std::to_string(index) + " (" + std::string(instruction.name) + ")"));
}

bool Method::State::is_fixed(const EValue& value) const {
  if (!value.is_tensor()) return false;
  const Tensor& tensor = value.tensor();
  return owns(tensor.data(), tensor.nbytes()) ||
         std::any_of(mutable_buffers.begin(), mutable_buffers.end(), [&](const auto* buffer) {
           const Tensor& memory = Session::tensor(*buffer);
           return lies_in(tensor, memory.data(), memory.nbytes());
         });
}

}  // namespace pteron
