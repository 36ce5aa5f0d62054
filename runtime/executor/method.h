// A loaded method: planned memory and delegates, for one thread at a time.
//
//   PTERON_ASSIGN_OR_RETURN(auto method, program->load_method("forward"));
//   PTERON_RETURN_IF_ERROR(method->set_inputs(inputs));
//   PTERON_RETURN_IF_ERROR(method->execute());
//   const Tensor& output = method->get_output(0).tensor();   // until the next execute()
//
// Not thread-safe, except cancel(): one thread at a time. Load the method again for another thread;
// code and weights are shared. A call while the method runs (from another thread or a callback)
// fails with InvalidState. execute() itself allocates nothing, takes no lock and logs nothing; see
// the delegates' documentation for theirs.
//
//   PTERON_RETURN_IF_ERROR(method->prepare());   // once, in advance, for inputs of these sizes
//
// After an error the method remains usable: set inputs and execute again. Mutable buffers, and
// inputs that the method writes, may hold partial results of the failed run; reset_state() restores
// the buffers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/run_control.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/executor/method_meta.h"

namespace pteron {

class EventTracer;
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

  // Sets input `index`. A tensor is copied if the input is planned; otherwise its pointer is used,
  // and the memory must stay valid until the input is set again or the method is destroyed. An
  // input with dynamic sizes takes the given sizes. Dim order, dtype, device and rank must match
  // the method's; a specialized scalar must equal the one at export. InvalidArgument or InvalidType
  // lists all errors; the input is then unchanged. The memory must not be planned memory of this
  // method, which a run overwrites: copy an output before using it as input. Memory of an input
  // that a run writes in place (ValueMeta::written) must be writable and not overlap another input;
  // execute() checks that.
  Error set_input(size_t index, const EValue& value);

  // Sets all inputs, in order: none is set unless all are valid, and all errors are reported.
  Error set_inputs(Span<const EValue> values);

  // Memory for an output, on its device; must hold the upper bound of the output's shape and stay
  // valid until it is set again or the method is destroyed. Required for an unplanned output;
  // allowed for a planned one if delegates write it in every run and no other value is planned in
  // its place. InvalidState for others, which have their own memory (planned, constant, or aliasing
  // another value). Zeroed if the program may leave part of it unwritten; delegates write their
  // outputs completely.
  Error set_output_data(size_t index, void* data, size_t nbytes);

  // Runs the method once. InvalidState lists all inputs that are not set. Tensors and symbolic
  // scalars must be set; other inputs already hold their only valid value. The memory of a planned
  // input may be reused during a run; such an input must be set before each run (the error says
  // so). Cancelled, TimedOut: cancelled, or exceeded `options` or Limits::run_time; polled between
  // instructions and, in CPU delegates, at each parallel region and each of its parts.
  // OutOfResources: Limits::instructions.
  Error execute(const ExecuteOptions& options = {});

  // Makes the current execute() or prepare() fail with Cancelled at its next poll, and returns
  // true. Returns false if none is running or it is about to end; later runs are not affected. Does
  // not block. Callable from any thread or a signal handler while the method exists.
  bool cancel();

  // Makes execute() faster for inputs with the sizes and scalars that are set now: delegates that
  // can capture a CUDA graph, and launch it for the same sizes and scalars. Runs the method once,
  // as execute() does, then restores mutable buffers and inputs that it writes; does nothing if no
  // delegate has anything to prepare. May be called repeatedly for other sizes. Slow: copies the
  // mutable buffers, allocates and synchronizes. With CUDA no other thread may synchronize the
  // device meanwhile (cudaDeviceSynchronize), as for any stream capture; see the backend's
  // documentation.
  //
  // NotSupported and others: which delegates cannot, and why. The method remains usable and runs
  // those as before.
  Error prepare(const ExecuteOptions& options = {});

  // The output of the last execute(); before it, what is known at load. `index` < outputs_size().
  // Tensors are borrowed from the method and valid until the next execute().
  const EValue& get_output(size_t index) const;

  // Receives the events of later runs, instead of LoadMethodOptions::tracer; must outlive them. May
  // be null. InvalidState while the method runs.
  Error set_tracer(EventTracer* tracer);

  // Resets the mutable buffers that this method uses to their initial values, for all methods of
  // its session.
  Error reset_state();

 private:
  friend class MethodLoader;
  struct State;

  explicit Method(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace pteron
