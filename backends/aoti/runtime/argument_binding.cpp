#include "pteron/backends/aoti/runtime/argument_binding.h"

#include <algorithm>
#include <string>
#include <utility>

#include "pteron/backends/aoti/slim/core/tensor_copy.h"

namespace pteron::aoti {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

namespace {

// A slim tensor over the method's tensor.
Result<TensorPtr> view_of(const Tensor& tensor) {
  return slim::make_tensor_from_blob(tensor.data(), tensor.sizes(), tensor.strides(), 0,
                                     slim::to_dtype(tensor.dtype()), tensor.device());
}

bool same_layout(const SlimTensor& a, const Tensor& b) {
  for (size_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.strides()[d]) return false;
  }
  return true;
}

bool ranges_overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

ArgumentBinding::ArgumentBinding(Contract contract, size_t num_inputs, size_t num_outputs,
                                 Device device)
    : contract_(std::move(contract)),
      device_(device),
      slots_(num_inputs),
      inputs_(num_inputs, nullptr),
      outputs_(num_outputs, nullptr) {}

ArgumentBinding::~ArgumentBinding() { delete_handles(); }

Error ArgumentBinding::bind_inputs(Span<EValue* const> arguments) {
  PTERON_CHECK_OR_RETURN(arguments.size() == inputs_.size() + outputs_.size(),
                         Error::InvalidProgram,
                         "the call has %zu arguments, the code takes %zu inputs and gives %zu "
                         "outputs",
                         arguments.size(), inputs_.size(), outputs_.size());
  contract_.begin();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Error error = bind_input(i, *arguments[i]);
    if (__builtin_expect(!error.ok(), 0)) {
      delete_handles();
      return error;
    }
  }
  if (Error error = contract_.check_together(); __builtin_expect(!error.ok(), 0)) {
    delete_handles();
    return error;
  }
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i] = new SlimTensor(slots_[i].tensor);
  return Error::Ok;
}

Error ArgumentBinding::bind_input(size_t i, const EValue& value) {
  if (__builtin_expect(value.is_tensor(), 1)) return bind_tensor(i, value.tensor());
  if (value.is_int() || value.is_double() || value.is_bool()) return bind_scalar(i, value);
  return make_error(Error::InvalidType, "input %zu: found %s, expected a tensor or a number", i,
                    value.kind());
}

Error ArgumentBinding::borrow(Input& input, void* data, size_t nbytes, Device device) {
  // The code may still hold a handle to the memory of the last run.
  if (!input.storage || !(input.storage->references.load(std::memory_order_acquire) <= 2)) {
    input.tensor = SlimTensor();
    PTERON_ASSIGN_OR_RETURN(input.storage, slim::borrow_storage(data, nbytes, device));
    return Error::Ok;
  }
  input.storage->data = data;
  input.storage->nbytes = nbytes;
  input.storage->device = device;
  return Error::Ok;
}

Error ArgumentBinding::bind_tensor(size_t i, const Tensor& tensor) {
  int64_t strides[slim::kMaxDims];
  bool fits = true;
  PTERON_RETURN_IF_ERROR(contract_.check_input(i, tensor, strides, &fits));
  PTERON_CHECK_OR_RETURN(tensor.data() || tensor.numel() == 0, Error::InvalidState,
                         "input %zu: %s has no data", i, tensor.describe().c_str());
  PTERON_CHECK_OR_RETURN(!tensor.is_constant() || !contract_.is_mutated(i), Error::InvalidArgument,
                         "input %zu: it is read-only (a constant of the program, or an input over "
                         "memory that its owner lets nobody write), and the code writes to it",
                         i);
  const Span<const int64_t> expected(strides, tensor.dim());
  Input& input = slots_[i];
  input.staged = false;
  const bool here = tensor.device() == device_;
  if (__builtin_expect(!fits || !here, 0)) return stage(i, tensor, expected);

  PTERON_RETURN_IF_ERROR(borrow(input, tensor.data(), tensor.capacity_nbytes(), tensor.device()));
  // Strides of dimensions of size 1 are the tensor's or the code's: they address no element, but
  // the code may be specialized on them.
  if (input.tensor.storage().get() == input.storage.get() && input.tensor.dim() == tensor.dim() &&
      input.tensor.dtype() == slim::to_dtype(tensor.dtype()) &&
      std::equal(expected.begin(), expected.end(), input.tensor.strides().begin()) &&
      std::equal(tensor.sizes().begin(), tensor.sizes().end(), input.tensor.sizes().begin())) {
    return Error::Ok;
  }
  return input.tensor.set(input.storage, tensor.sizes(), expected, 0,
                          slim::to_dtype(tensor.dtype()));
}

Error ArgumentBinding::stage(size_t i, const Tensor& tensor, Span<const int64_t> strides) {
  Input& input = slots_[i];
  PTERON_ASSIGN_OR_RETURN(TensorPtr source, view_of(tensor));
  PTERON_ASSIGN_OR_RETURN(
      TensorPtr copy,
      slim::make_tensor(tensor.sizes(), strides, slim::to_dtype(tensor.dtype()), device_));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, *source));
  input.tensor = *copy;
  input.storage = slim::StorageRef();
  input.staged = true;
  if (contract_.is_mutated(i)) input.original = std::move(source);
  return Error::Ok;
}

Error ArgumentBinding::bind_scalar(size_t i, const EValue& value) {
  if (value.is_int() && !contract_.is_empty() && contract_.input_rank(i) == 2) {
    // The code takes an integer as the size of a tensor without elements.
    const int64_t sizes[] = {value.to_int(), 0};
    PTERON_ASSIGN_OR_RETURN(const Tensor tensor,
                            Tensor::make(ScalarType::Byte, sizes, nullptr, device_));
    return bind_tensor(i, tensor);
  }
  Input& input = slots_[i];
  DType dtype = DType::Long;
  size_t nbytes = sizeof(int64_t);
  if (value.is_int()) {
    input.scalar.integer = value.to_int();
  } else if (value.is_double()) {
    input.scalar.real = value.to_double();
    dtype = DType::Double;
  } else {
    input.scalar.boolean = value.to_bool();
    dtype = DType::Bool;
    nbytes = sizeof(bool);
  }
  if (!contract_.is_empty()) {
    PTERON_CHECK_OR_RETURN(
        contract_.input_rank(i) == 0 && contract_.input_dtype(i) == dtype, Error::InvalidType,
        "input %zu: found %s, expected a %s tensor of %zu "
        "dimensions",
        i, value.kind(), slim::name_of(contract_.input_dtype(i)), contract_.input_rank(i));
  }
  input.staged = false;
  PTERON_RETURN_IF_ERROR(borrow(input, &input.scalar, nbytes, Device{}));
  return input.tensor.set(input.storage, {}, {}, 0, dtype);
}

Span<const OutputBuffer> ArgumentBinding::output_buffers(Span<EValue* const> arguments) {
  const auto memory_of = [](const EValue& value) -> OutputBuffer {
    if (!value.is_tensor()) return {};
    return {value.tensor().data(), value.tensor().nbytes(), 0};
  };
  // Usually unchanged since the last run.
  bool known = memory_.size() == arguments.size();
  memory_.resize(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const OutputBuffer memory = memory_of(*arguments[i]);
    known = known && memory.data == memory_[i].data && memory.nbytes == memory_[i].nbytes;
    memory_[i] = memory;
  }
  if (__builtin_expect(known, 1)) return output_buffers_;
  output_buffers_.clear();
  for (size_t i = inputs_.size(); i < arguments.size(); ++i) {
    const OutputBuffer& buffer = memory_[i];
    if (buffer.nbytes == 0 || arguments[i]->tensor().device() != device_ ||
        reinterpret_cast<uintptr_t>(buffer.data) % slim::kStorageAlignment != 0) {
      continue;
    }
    bool shared = false;
    for (size_t k = 0; k < arguments.size() && !shared; ++k) {
      const size_t nbytes =
          memory_[k].data ? arguments[k]->tensor().capacity_nbytes() : memory_[k].nbytes;
      shared = k != i && ranges_overlap(buffer.data, buffer.nbytes, memory_[k].data, nbytes);
    }
    if (!shared) output_buffers_.push_back({buffer.data, buffer.nbytes, i - inputs_.size()});
  }
  return output_buffers_;
}

Error ArgumentBinding::store_outputs(Span<EValue* const> arguments) {
  Error error = [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_outputs(arguments));
    for (Input& input : slots_) {
      if (!input.original) continue;
      PTERON_RETURN_IF_ERROR(slim::copy_tensor(*input.original, input.tensor));
    }
    PTERON_RETURN_IF_ERROR(separate_aliases(arguments));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Error stored = store_output(*outputs_[i], *arguments[inputs_.size() + i]);
      if (__builtin_expect(!stored.ok(), 0)) {
        return std::move(stored).with_context("output " + std::to_string(i));
      }
    }
    return Error::Ok;
  }();
  delete_handles();
  return error;
}

// Validates all outputs before any is written.
Error ArgumentBinding::check_outputs(Span<EValue* const> arguments) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const SlimTensor* output = outputs_[i];
    PTERON_CHECK_OR_RETURN(output && output->is_defined(), Error::Internal,
                           "output %zu: the code gave no tensor", i);
    PTERON_RETURN_IF_ERROR(contract_.check_output(i, output->dtype(), output->sizes()));
    const EValue& value = *arguments[inputs_.size() + i];
    if (value.is_int()) {
      PTERON_CHECK_OR_RETURN(output->dtype() == DType::Long && output->numel() == 1,
                             Error::InvalidType, "output %zu: found %s, expected an integer", i,
                             output->describe().c_str());
      continue;
    }
    PTERON_CHECK_OR_RETURN(value.is_tensor(), Error::InvalidType,
                           "output %zu: the program keeps it as %s, the code gives %s", i,
                           value.kind(), output->describe().c_str());
    const Tensor& tensor = value.tensor();
    PTERON_CHECK_OR_RETURN(
        slim::to_dtype(tensor.dtype()) == output->dtype() && tensor.dim() == output->dim(),
        Error::InvalidType, "output %zu: the code gives %s, the program keeps it as %s", i,
        output->describe().c_str(), tensor.describe().c_str());
    PTERON_CHECK_OR_RETURN(tensor.data() || output->numel() == 0, Error::InvalidState,
                           "output %zu: %s has no data", i, tensor.describe().c_str());
    PTERON_CHECK_OR_RETURN(!tensor.is_constant(), Error::InvalidArgument,
                           "output %zu: it is read-only", i);
  }
  return Error::Ok;
}

// An output may alias an input or another output, and planned memory may be shared between them.
// Whatever would be overwritten before it is read is copied first.
Error ArgumentBinding::separate_aliases(Span<EValue* const> arguments) {
  for (size_t i = 1; i < outputs_.size(); ++i) {
    const SlimTensor& output = *outputs_[i];
    if (output.numel() == 0) continue;
    const slim::Storage& storage = *output.storage().get();
    bool overwritten = false;
    for (size_t k = 0; k < i && !overwritten; ++k) {
      const EValue& value = *arguments[inputs_.size() + k];
      if (!value.is_tensor()) continue;
      const Tensor& target = value.tensor();
      overwritten =
          ranges_overlap(storage.data, storage.nbytes, target.data(), target.capacity_nbytes());
    }
    if (!overwritten) continue;
    PTERON_ASSIGN_OR_RETURN(TensorPtr copy, slim::clone_tensor(output));
    // Two outputs may be one handle.
    const bool shared = std::count(outputs_.begin(), outputs_.end(), outputs_[i]) > 1;
    if (shared) {
      outputs_[i] = copy.release();
    } else {
      *outputs_[i] = *copy;
    }
  }
  return Error::Ok;
}

Error ArgumentBinding::store_output(const SlimTensor& output, EValue& value) {
  if (value.is_int()) {
    int64_t number = 0;
    PTERON_ASSIGN_OR_RETURN(TensorPtr target,
                            slim::make_tensor_from_blob(&number, {}, {}, 0, DType::Long, Device{}));
    SlimTensor flat;
    PTERON_RETURN_IF_ERROR(
        flat.set(output.storage(), {}, {}, output.storage_offset(), DType::Long));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*target, flat));
    value = EValue(number);
    return Error::Ok;
  }
  Tensor& tensor = value.tensor();
  if (!std::equal(output.sizes().begin(), output.sizes().end(), tensor.sizes().begin())) {
    PTERON_RETURN_IF_ERROR(tensor.resize(output.sizes()));
  }
  if (output.numel() == 0) return Error::Ok;
  const bool same = same_layout(output, tensor);
  if (same && output.data() == tensor.data()) return Error::Ok;  // written in place
  if (same && output.device().type == DeviceType::CPU && tensor.device().type == DeviceType::CPU &&
      !ranges_overlap(output.data(), output.nbytes(), tensor.data(), tensor.nbytes())) {
    // Planned tensors are dense, and the layouts are equal.
    std::memcpy(tensor.data(), output.data(), output.nbytes());
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr target, view_of(tensor));
  return slim::copy_tensor(*target, output);
}

void ArgumentBinding::delete_handles() {
  for (SlimTensor*& input : inputs_) delete std::exchange(input, nullptr);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    SlimTensor* output = std::exchange(outputs_[i], nullptr);
    if (!output) continue;
    for (size_t k = i + 1; k < outputs_.size(); ++k) {
      if (outputs_[k] == output) outputs_[k] = nullptr;
    }
    delete output;
  }
  for (Input& input : slots_) {
    if (__builtin_expect(input.staged, 0)) {
      input.tensor = SlimTensor();
      input.original.reset();
      input.staged = false;
    }
  }
}

}  // namespace pteron::aoti
