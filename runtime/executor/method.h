// One loaded method: its own planned memory, its delegates, and one line of execution.
//
//   PTERON_ASSIGN_OR_RETURN(auto method, program->load_method("forward"));
//   PTERON_RETURN_IF_ERROR(method->set_inputs(inputs));
//   PTERON_RETURN_IF_ERROR(method->execute());
//   const Tensor& output = method->get_output(0).tensor();   // until the next execute()
//
// Not thread-safe, but for cancel(): one thread at a time. Load the method again for another thread; code and weights
// are shared. What is called while the method runs (from another thread, or from a callback) is
// refused with InvalidState. execute() itself allocates nothing, takes no lock and logs nothing; what a delegate
// does in it is the delegate's promise.
//
//   PTERON_RETURN_IF_ERROR(method->prepare());   // once, ahead, for inputs of these sizes
//
// After an error the method is as usable as before it: set inputs and execute again. Mutable
// buffers, and inputs that the method changes, may then hold a part of what the failed run wrote;
// reset_state() puts the buffers back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/run_control.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/executor/method_meta.h"

namespace pteron {

class Program;
class Session;

class Method final {
 public:
  // Use Program::load_method().
  ~Method();
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;

  const MethodMeta& meta() const;
  const std::string& name() const { return meta().name; }
  const Program& program() const;
  Session& session() const;

  size_t inputs_size() const;
  size_t outputs_size() const;

  // Sets input `index`. A tensor is copied if the input is planned, otherwise its pointer is used:
  // the bytes must then stay valid until the input is set again or the method goes. A bounded
  // tensor takes the sizes given. Dim order, dtype, device and rank must be those of the method; a
  // scalar that the program was specialised to must be the one it was exported with.
  // InvalidArgument or InvalidType says all that is wrong; the input is then as before. The bytes
  // must not lie in the planned memory of this method, which a run overwrites: copy an output
  // before it becomes an input. Those of an input that a run changes in place (ValueMeta::written) must
  // be writable, and no other input's: execute() refuses that.
  Error set_input(size_t index, const EValue& value);

  // All at once, in order: nothing is set unless all are right, and all errors are reported.
  Error set_inputs(Span<const EValue> values);

  // Memory for an output, on its device; must hold the upper bound of the output's shape and stay
  // valid until it is set again or the method goes. An output that is not planned needs it, and one
  // that is planned may have it if delegates write it in every run and nothing else is in its place,
  // or ever was. InvalidState for others, which have their own memory (planned, constant, or the
  // handle of another value). Zeroed if the program may leave some of it unwritten; of an output
  // that only delegates write, they promise to write all.
  Error set_output_data(size_t index, void* data, size_t nbytes);

  // Runs the method once. InvalidState: what is not set, all of it. Tensors and symbolic scalars
  // must be; other inputs already hold the only value they can have. The memory of a planned input
  // may be reused during a run; such an input must be set before each (the error says so).
  // Cancelled, TimedOut: it was told to end, or took longer than `options` or Limits::run_time allow.
  // It looks between instructions and, in delegates for the CPU, at each parallel region and each part of one:
  // what is between these is done to its end. OutOfResources: Limits::instructions.
  Error execute(const ExecuteOptions& options = {});

  // Has the run that goes on, of execute() or prepare(), fail with Cancelled at its next look: true.
  // False where none goes on, or it is about to end; that says nothing to the next one. Does not wait.
  // Any thread, or a signal handler, as long as the method lives.
  bool cancel();

  // Makes execute() faster for inputs of the sizes, and with the numbers, that are set now: a
  // delegate that can, keeps what it launches on its device (a CUDA graph) and launches that whenever
  // the same sizes and numbers come. Runs the method once, as execute() does, and puts the mutable
  // buffers, and inputs that it changes, back to what they were; does nothing but that, or nothing at all, where no delegate has
  // anything to prepare. Any number of calls, for other sizes. Slow: it copies the mutable buffers,
  // allocates and waits. What a backend asks of other threads meanwhile is in its documentation; with
  // CUDA none may wait for the whole device (cudaDeviceSynchronize), as for any stream capture.
  //
  // NotSupported and others: which delegates cannot, and why. The method is as usable as before, and
  // runs those as before.
  Error prepare(const ExecuteOptions& options = {});

  // What the last execute() computed, or before it what is known at load. `index` < outputs_size().
  // Tensors in it are borrowed from the method, and valid until the next execute().
  const EValue& get_output(size_t index) const;

  // The mutable buffers that this method uses to their initial values, also for all other methods
  // of its session.
  Error reset_state();

 private:
  friend class MethodLoader;
  struct State;

  explicit Method(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace pteron
