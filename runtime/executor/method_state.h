// The state of a loaded method, and its instruction loop.
//
// Members are destroyed last to first: delegates, then their shared state, the memory of their
// arguments, and the program.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pteron/runtime/core/limits.h"
#include "pteron/runtime/core/run_control.h"
#include "pteron/runtime/executor/instruction.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/planned_buffer.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/runtime/kernel/kernel_context.h"

namespace pteron {

struct Method::State {
  explicit State(EventTracer* event_tracer) : tracer(event_tracer), kernel_context(event_tracer) {}
  ~State();

  // Runs execute() or prepare() as one cancellable run, unless the method is running.
  Error run_alone(const ExecuteOptions& options, Error (State::*function)());
  // Runs once; all inputs are set and the method is locked.
  Error execute();
  // The same, and lets delegates prepare; restores mutable buffers.
  Error prepare();
  // InvalidState while the method runs.
  Error check_idle() const;
  Error explain_running() const;
  // Runs all instructions once. Allocates nothing unless it fails.
  Error run();
  // Resets the first `count` values (not memory), except inputs, to their state after load.
  void restore_slots(size_t count);
  // Restores planned memory with initial contents and this method's mutable buffers.
  Error write_initial_values();
  Error reset_mutable_buffers();
  // Whether [data, data + nbytes) overlaps the planned memory.
  bool owns(const void* data, size_t nbytes) const;

  // Whether `value` is valid as input `index`; and the errors of `values` as inputs from `first`
  // on.
  bool is_input(size_t index, const EValue& value) const;
  Error explain_inputs(Span<const EValue> values, size_t first) const;
  // `value` must be valid as input `index`.
  Error write_input(size_t index, const EValue& value);
  void forget_overwritten_inputs();
  // InvalidArgument: an input that the run writes overlaps another one.
  Error check_written_inputs() const;
  // The error for num_missing > 0.
  Error explain_missing() const;
  // Sets a flag and updates num_missing.
  void mark_set(bool* is_set);

  struct Input {
    EValue* value = nullptr;
    bool needs_value = false;  // execute() fails until it is set
    bool is_set = false;
    bool is_overwritten = false;        // a run may overwrite it
    std::unique_ptr<EValue> prototype;  // initial value, if a run may move to it
  };
  struct Preparation;
  struct Output {
    EValue* value = nullptr;
    bool needs_data = false;   // the caller provides the memory
    bool takes_data = false;   // the caller may replace planned memory
    bool needs_zeros = false;  // a run may leave part of it unwritten
    bool is_set = false;
  };
  struct InitialValue {
    void* destination = nullptr;
    Span<const uint8_t> bytes;
    Device device;
  };

  std::shared_ptr<const Program> program;
  std::shared_ptr<Session> session;
  MethodMeta meta;
  EventTracer* tracer;
  Limits limits;
  RunControl control;
  RunControl::Work traced_work;

  PlannedBuffer cpu_memory;                 // all CPU pools
  std::vector<PlannedBuffer> other_memory;  // one for each other pool, or for each tensor
  std::vector<InitialValue> initial_values;
  std::vector<Session::Buffer*> mutable_buffers;

  std::vector<EValue> values;                 // the values; never resized after load
  std::deque<std::vector<EValue*>> pointers;  // elements of lists, arguments of calls
  std::deque<std::unique_ptr<bool[]>> bool_lists;
  // Values that a run may change, as they were after load. The first ones are tensors whose memory
  // it reassigns, possibly to a caller's: a run starts without that.
  std::vector<std::pair<EValue*, EValue>> snapshots;
  size_t num_redirected = 0;

  std::vector<Input> inputs;
  std::vector<size_t> written_inputs;  // see ValueMeta::written
  std::vector<Output> outputs;
  std::vector<EValue*> uncertain_outputs;  // tensors that may have no memory after a run
  std::atomic<bool> is_running{false};
  size_t num_missing = 0;  // inputs and outputs that must still be set

  std::vector<std::string> operator_names;
  std::vector<Instruction> instructions;
  KernelContext kernel_context;
  // By backend id.
  std::unordered_map<std::string, std::shared_ptr<void>> shared_states;
  std::vector<std::unique_ptr<Delegate>> delegates;
  Preparation* preparation = nullptr;  // while prepare() runs

 private:
  Error call(const Instruction& instruction);
  Error call_function(const Instruction& instruction);
  Error call_traced(const Instruction& instruction);
  void prepare_delegate(const Instruction& instruction, BackendExecutionContext& context);
  bool is_fixed(const EValue& value) const;
  Error explain(size_t index, Error error) const;
  Error check_outputs() const;
  // `value` must be of the input's kind.
  bool is_in_own_memory(size_t index, const EValue& value) const;
};

}  // namespace pteron
