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

// A load-time option for one backend. Unknown keys are errors.
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
  Span<const BackendOption> options;         // the options for this backend
  // Device mapping; null: use the program's devices.
  const DeviceMap* devices = nullptr;
  // State shared by the delegates of this backend in this method (a stream): empty for the first
  // delegate, then what that one stored. The method keeps it until all its delegates are destroyed.
  std::shared_ptr<void>* shared_state = nullptr;  // never null
  EventTracer* tracer = nullptr;                  // may be null
  // Checked before code or weights are copied.
  LoadBudget* budget = nullptr;  // null: no limit
};

// What a backend may use during one execution. Borrowed for the call. The runtime has begun an
// event for the call; a delegate's events are nested in it.
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

  // Whether execute() writes input `index` in place. The caller's memory for such an input must be
  // writable and must not overlap other inputs.
  virtual bool writes_input(size_t index) const { return (void)index, false; }

  // Whether prepare() does anything.
  virtual bool can_prepare() const { return false; }

  // Called after a successful execute() with these arguments, to make later runs with the same
  // sizes and scalars faster. `fixed` says for each argument whether its memory belongs to the
  // method or its session and keeps its address. Computes nothing: only the delegate's own memory
  // may change. An error says why it is impossible; runs are then as before.
  virtual Error prepare(BackendExecutionContext& context, Span<EValue* const> arguments,
                        Span<const bool> fixed) {
    return (void)context, (void)arguments, (void)fixed, Error::Ok;
  }
};

// Thread-safe: init may be called by several threads at once.
class BackendInterface {
 public:
  virtual ~BackendInterface() = default;

  // Whether this machine can run the backend; `reason` (may be null) receives why not.
  virtual bool is_available(std::string* reason) const { return (void)reason, true; }

  // A human-readable description of a partition: lines of "name  value", each ended by a newline.
  // Arguments are those of init(); loads nothing and never fails. May be empty.
  virtual std::string describe(const NamedDataMap& named_data, Span<const uint8_t> processed,
                               Span<const CompileSpec> compile_specs) const {
    return (void)named_data, (void)processed, (void)compile_specs, std::string();
  }

  // `processed` is what lowering returned; borrowed, lives as long as the Program.
  virtual Result<std::unique_ptr<Delegate>> init(BackendInitContext& context,
                                                 Span<const uint8_t> processed,
                                                 Span<const CompileSpec> compile_specs) = 0;

  // Returns cached memory to the OS and to devices. Methods may run concurrently.
  virtual void release_cached_memory() noexcept {}
};

// Registers a backend under the id that programs use. AlreadyLoaded if the id is taken (the first
// one stays). Thread-safe; usually called by a static initializer, or when a plug-in is opened.
Error register_backend(std::string_view id, std::unique_ptr<BackendInterface> backend);

// Null if there is none. The object lives as long as the process. Thread-safe.
BackendInterface* find_backend(std::string_view id);

// Opens the library that registers this backend. Ok without effect if it knows none.
using BackendOpener = Error (*)(std::string_view id);

// Of the process, for backends that a method needs and that are not registered. libpteron.so has
// one; by default there is none. Thread-safe.
void set_backend_opener(BackendOpener opener);

// Calls it; Ok if there is none. Thread-safe.
Error open_backend(std::string_view id);

// The ids of all registered backends, sorted. Thread-safe.
std::vector<std::string> registered_backends();

// Makes all backends return cached memory; the next run then takes longer. Per-thread caches of
// other threads stay (on the CPU up to 8 MB each). May be called while methods run. Thread-safe.
void release_cached_memory();

}  // namespace pteron
