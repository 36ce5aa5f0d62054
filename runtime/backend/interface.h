// The interface between the runtime and a backend.
//
//   class MyBackend final : public BackendInterface {
//    public:
//     Result<std::unique_ptr<Delegate>> init(BackendInitContext& context,
//                                            Span<const uint8_t> processed,
//                                            Span<const CompileSpec> compile_specs) override;
//   };
//   static const bool registered =
//       register_backend("MyBackend", std::make_unique<MyBackend>()).ok();
//
// One backend object serves the whole process; one Delegate is one partition of one loaded method.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pteron/runtime/backend/device_map.h"
#include "pteron/runtime/backend/event_tracer.h"
#include "pteron/runtime/backend/named_data_map.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/limits.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron {

// A key and opaque bytes, written at lowering. Borrowed from the program.
struct CompileSpec {
  std::string_view key;
  Span<const uint8_t> value;
};

// A choice made at load time, for one backend. Keys that a backend does not know are errors.
struct BackendOption {
  std::string key;
  std::variant<bool, int64_t, std::string> value;
};

// What a backend may use while it loads one partition. Borrowed for the call, except that
// `named_data` and everything reached from it live as long as the Program, which outlives the
// Delegate.
struct BackendInitContext {
  std::string_view method_name;
  const NamedDataMap* named_data = nullptr;  // never null
  Span<const BackendOption> options;         // those given for this backend
  // Where to run what was made for a device; null if everywhere as the program says.
  const DeviceMap* devices = nullptr;
  // What the delegates of this backend in this one method share (a stream): empty for the first of
  // them, then what that one left. The method keeps it until all its delegates are destroyed.
  std::shared_ptr<void>* shared_state = nullptr;  // never null
  EventTracer* tracer = nullptr;                  // may be null
  // Asked before code or weights are copied.
  LoadBudget* budget = nullptr;  // null: as much as is there
};

// What a backend may use during one execution. Borrowed for the call, whose event the runtime has
// opened: what a delegate reports lies within it.
struct BackendExecutionContext {
  std::string_view method_name;
  EventTracer* tracer = nullptr;  // may be null
};

// One partition, loaded. Destroyed on any thread, never during execute.
class Delegate {
 public:
  virtual ~Delegate() = default;

  // Runs once. `arguments` are the inputs in graph order, then the outputs; outputs are tensors
  // over memory of their upper bound and are resized to what was computed. Nothing here may throw,
  // and a failure leaves the delegate usable. Called by one thread at a time.
  virtual Error execute(BackendExecutionContext& context, Span<EValue* const> arguments) = 0;

  // Whether execute() changes the bytes of input `index`, in place. What a method's caller gives for
  // such an input must be writable, and lie apart from other inputs.
  virtual bool writes_input(size_t index) const { return (void)index, false; }

  // Whether prepare() does anything.
  virtual bool can_prepare() const { return false; }

  // Follows an execute() with these arguments that succeeded: makes later ones faster whose
  // arguments have the same sizes and numbers. `fixed` says of each argument whether its memory
  // belongs to the method or its session, where it stays from run to run. Computes nothing: other
  // memory than the delegate's own keeps its contents. An error says why it cannot be, and runs are
  // then as before.
  virtual Error prepare(BackendExecutionContext& context, Span<EValue* const> arguments,
                        Span<const bool> fixed) {
    return (void)context, (void)arguments, (void)fixed, Error::Ok;
  }
};

// Thread-safe: init may be called by several threads at once.
class BackendInterface {
 public:
  virtual ~BackendInterface() = default;

  // Whether this machine can run it at all; `reason` (may be null) receives why not.
  virtual bool is_available(std::string* reason) const { return (void)reason, true; }

  // What a partition holds, human-readable: lines of "name  value", each ended by a newline.
  // Arguments are those of init(); loads nothing and fails silently. Empty if there is nothing to
  // say.
  virtual std::string describe(const NamedDataMap& named_data, Span<const uint8_t> processed,
                               Span<const CompileSpec> compile_specs) const {
    return (void)named_data, (void)processed, (void)compile_specs, std::string();
  }

  // `processed` is what lowering returned; borrowed, lives as long as the Program.
  virtual Result<std::unique_ptr<Delegate>> init(BackendInitContext& context,
                                                 Span<const uint8_t> processed,
                                                 Span<const CompileSpec> compile_specs) = 0;

  // Gives back to the system, and to devices, memory that is kept for later runs. Methods may run
  // meanwhile, on any thread.
  virtual void release_cached_memory() noexcept {}
};

// Adds a backend under the id that programs name it by. AlreadyLoaded if the id is taken (the first
// stays). Thread-safe; usually called by a static initialiser, or when a plug-in is opened.
Error register_backend(std::string_view id, std::unique_ptr<BackendInterface> backend);

// Null if there is none. The object lives as long as the process. Thread-safe.
BackendInterface* find_backend(std::string_view id);

// The ids of all registered backends, sorted. Thread-safe.
std::vector<std::string> registered_backends();

// Has all backends give back memory that they keep for later runs, of which the first then takes
// longer. What other threads keep for themselves stays (on the CPU up to 8 MB each). May be called
// while methods run. Thread-safe.
void release_cached_memory();

}  // namespace pteron
