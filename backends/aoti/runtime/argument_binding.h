// Between the values of a method and the handles of a model: one object per delegate, used for each
// run in turn.
//
//   PTERON_RETURN_IF_ERROR(binding.bind_inputs(arguments));
//   PTERON_RETURN_IF_ERROR(container.run(binding.inputs(), binding.outputs(), stream));
//   PTERON_RETURN_IF_ERROR(binding.store_outputs(arguments));
//
// `arguments` are the inputs in order, then the outputs. A tensor that has the layout and the
// device that the code expects is used in place. An integer, a floating-point number or a bool is
// passed as a tensor of no dimensions, and an integer output is taken from one. Handles, storages
// and the tables here are reused, so that a run allocates nothing. Not thread-safe.
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

  // Checks all inputs and makes their handles; on failure there are none.
  Error bind_inputs(Span<EValue* const> arguments);

  // Whether the code writes to an input.
  bool changes_input(size_t input) const { return contract_.is_mutated(input); }

  Span<slim::SlimTensor*> inputs() { return inputs_; }
  Span<slim::SlimTensor*> outputs() { return outputs_; }

  // Where outputs belong, as far as the code may compute them there: memory on the device, of their
  // present size, that no argument shares. For bound inputs; valid until the next call.
  Span<const OutputBuffer> output_buffers(Span<EValue* const> arguments);

  // Copies changed inputs and all outputs to where they belong, resizes the outputs, and deletes
  // the handles, also on failure.
  Error store_outputs(Span<EValue* const> arguments);

 private:
  struct Input {
    slim::SlimTensor tensor;   // over `storage`, with the sizes of the last run
    slim::StorageRef storage;  // borrows whatever memory the argument has
    bool staged = false;       // the code works on a copy
    slim::TensorPtr original;  // what a staged input is copied back to, if the code changes it
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
  std::vector<OutputBuffer> memory_;  // of all arguments, when output_buffers_ were found
};

}  // namespace pteron::aoti
