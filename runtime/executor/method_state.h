// What a loaded method is made of, and the loop that runs it.
//
// Members are destroyed last to first: delegates before what they share, before the memory their
// arguments lie in, before the program.
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

  // execute() or prepare(), unless the method runs, as one run that can be ended.
  Error run_alone(const ExecuteOptions& options, Error (State::*function)());
  // Runs once what is all set, with nobody else at it.
  Error execute();
  // The same, and delegates prepare for more; mutable buffers are then as before.
  Error prepare();
  // InvalidState while the method runs.
  Error check_idle() const;
  Error explain_running() const;
  // All instructions once. Allocates nothing unless it fails.
  Error run();
  // What a run changed in the first `count` slots (not in memory) to what it was after load, but
  // for inputs.
  void restore_slots(size_t count);
  // Planned memory with contents in the file, and this method's mutable buffers.
  Error write_initial_values();
  Error reset_mutable_buffers();
  // Whether [data, data + nbytes) touches the planned memory.
  bool owns(const void* data, size_t nbytes) const;

  // Whether `value` can be input `index`; and why the inputs from `first` on cannot be `values`.
  bool is_input(size_t index, const EValue& value) const;
  Error explain_inputs(Span<const EValue> values, size_t first) const;
  // `value` must be an input `index`.
  Error write_input(size_t index, const EValue& value);
  void forget_overwritten_inputs();
  // InvalidArgument: an input that the run changes shares memory with another one.
  Error check_written_inputs() const;
  // The error for num_missing > 0.
  Error explain_missing() const;
  // Sets a flag that num_missing counts.
  void mark_set(bool* is_set);

  struct Input {
    EValue* value = nullptr;
    bool needs_value = false;  // execute() is refused before it is set
    bool is_set = false;
    bool is_overwritten = false;        // a run may leave something else in its place
    std::unique_ptr<EValue> prototype;  // as after load, if a run may move to the slot
  };
  struct Preparation;
  struct Output {
    EValue* value = nullptr;
    bool needs_data = false;   // the caller brings the memory
    bool takes_data = false;   // the caller may bring other memory than is planned
    bool needs_zeros = false;  // a run may leave some of it as it was
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

  PlannedBuffer cpu_memory;                 // all CPU pools
  std::vector<PlannedBuffer> other_memory;  // one for each other pool, or for each tensor
  std::vector<InitialValue> initial_values;
  std::vector<Session::Buffer*> mutable_buffers;

  std::vector<EValue> values;                 // the slots; never resized after load
  std::deque<std::vector<EValue*>> pointers;  // items of lists, arguments of calls
  std::deque<std::unique_ptr<bool[]>> bool_lists;
  // Slots that a run may change, as they were after load. The first are tensors that it gives other
  // memory, perhaps a caller's: a run begins without that.
  std::vector<std::pair<EValue*, EValue>> snapshots;
  size_t num_redirected = 0;

  std::vector<Input> inputs;
  std::vector<size_t> written_inputs;  // see ValueMeta::written
  std::vector<Output> outputs;
  std::vector<EValue*> uncertain_outputs;  // tensors that may have no memory after a run
  std::atomic<bool> is_running{false};
  size_t num_missing = 0;  // inputs and outputs that execute() waits for

  std::vector<std::string> operator_names;
  std::vector<Instruction> instructions;
  KernelContext kernel_context;
  // By backend id.
  std::unordered_map<std::string, std::shared_ptr<void>> shared_states;
  std::vector<std::unique_ptr<Delegate>> delegates;
  Preparation* preparation = nullptr;  // while prepare() runs

 private:
  Error call(const Instruction& instruction);
  void prepare_delegate(const Instruction& instruction, BackendExecutionContext& context);
  bool is_fixed(const EValue& value) const;
  Error explain(size_t index, Error error) const;
  Error check_outputs() const;
  // `value` must be of the input's kind.
  bool is_in_own_memory(size_t index, const EValue& value) const;
};

}  // namespace pteron
