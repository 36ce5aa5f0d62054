// Converts between the values of a method and the handles of a model. One object per delegate,
// reused by all runs.
//
//   PTERON_RETURN_IF_ERROR(binding.bind_inputs(arguments));
//   PTERON_RETURN_IF_ERROR(container.run(binding.inputs(), binding.outputs(), stream));
//   PTERON_RETURN_IF_ERROR(binding.store_outputs(arguments));
//
// `arguments` are the inputs in order, then the outputs. A tensor that has the layout and the
// device that the code expects is used in place. An integer, a floating-point number or a bool is
// passed as a 0-d tensor, and an integer output is read from one. Handles, storages and tables are
// reused, so that a run allocates nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "pteron/backends/aoti/runtime/contract.h"
#include "pteron/backends/aoti/runtime/output_buffer.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

class ArgumentBinding final {
 public:
  ArgumentBinding(Contract contract, size_t num_inputs, size_t num_outputs, Device device);
  ~ArgumentBinding();
  ArgumentBinding(const ArgumentBinding&) = delete;
  ArgumentBinding& operator=(const ArgumentBinding&) = delete;

  // Checks all inputs and creates their handles; none on failure.
  Error bind_inputs(Span<EValue* const> arguments);

  // Whether the code writes to an input.
  bool changes_input(size_t input) const { return contract_.is_mutated(input); }

  Span<slim::SlimTensor*> inputs() { return inputs_; }
  Span<slim::SlimTensor*> outputs() { return outputs_; }

  // The memory of outputs that the code may compute in place: device memory of their current size
  // that no other argument shares. Requires bound inputs; valid until the next call.
  Span<const OutputBuffer> output_buffers(Span<EValue* const> arguments);

  // Copies modified inputs and all outputs to their destination, resizes the outputs, and deletes
  // the handles, also on failure.
  Error store_outputs(Span<EValue* const> arguments);

 private:
  struct Input {
    slim::SlimTensor tensor;   // over `storage`, with the sizes of the last run
    slim::StorageRef storage;  // borrows the memory of the argument
    bool staged = false;       // the code works on a copy
    slim::TensorPtr original;  // destination of a staged input that the code modifies
    union {
      int64_t integer = 0;
      double real;
      bool boolean;
    } scalar;
  };

  Error bind_input(size_t i, const EValue& value);
  Error bind_tensor(size_t i, const Tensor& tensor);
  Error bind_scalar(size_t i, const EValue& value);
  Error borrow(Input& input, void* data, size_t nbytes, Device device);
  Error stage(size_t i, const Tensor& tensor, Span<const int64_t> strides);
  Error check_outputs(Span<EValue* const> arguments) const;
  Error separate_aliases(Span<EValue* const> arguments);
  Error store_output(const slim::SlimTensor& output, EValue& value);
  void delete_handles();

  Contract contract_;
  Device device_;
  std::vector<Input> slots_;
  std::vector<slim::SlimTensor*> inputs_;
  std::vector<slim::SlimTensor*> outputs_;
  std::vector<OutputBuffer> output_buffers_;
  std::vector<OutputBuffer> memory_;  // of all arguments, when output_buffers_ was computed
};

}  // namespace pteron::aoti
