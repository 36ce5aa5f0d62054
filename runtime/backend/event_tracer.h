// Receives events inside a method. Costs one pointer test without a tracer.
//
// Called on the thread that executes the method. Text is borrowed for the call. Profile
// (runtime/executor/profile.h) is an implementation.
#pragma once

#include <cstdint>
#include <string_view>

namespace pteron {

// What is known of an event besides its name. Empty or 0: unknown.
struct EventDetails {
  std::string_view op;      // operators, separated by commas
  std::string_view module;  // paths of the model's modules, separated by commas
  std::string_view source;  // lines of the model, "model.py:41", separated by commas
  std::string_view shapes;  // of tensor arguments: "float32[2, 3] int64[2]"
  uint64_t nbytes = 0;      // of those tensors
};

class EventTracer {
 public:
  virtual ~EventTracer() = default;
  // Begins an event; pass the result to end().
  virtual uint64_t begin(std::string_view category, std::string_view name) = 0;
  virtual void end(uint64_t event) = 0;
  // Before or after end(); at most once for an event.
  virtual void describe(uint64_t event, const EventDetails& details) { (void)event, (void)details; }
  // The value of a counter from now on, such as bytes of memory.
  virtual void count(std::string_view counter, uint64_t value) { (void)counter, (void)value; }
  // What a device computed, known after `event` has begun: `start_ns` after that begin, on `stream`.
  virtual void record_on_device(uint64_t event, int64_t start_ns, int64_t duration_ns,
                                std::string_view stream) {
    (void)event, (void)start_ns, (void)duration_ns, (void)stream;
  }
};

// An event for a scope; does nothing without a tracer.
class TraceScope final {
 public:
  TraceScope(EventTracer* tracer, std::string_view category, std::string_view name)
      : tracer_(tracer),
        event_(__builtin_expect(tracer != nullptr, 0) ? tracer->begin(category, name) : 0) {}
  ~TraceScope() {
    if (__builtin_expect(tracer_ != nullptr, 0)) tracer_->end(event_);
  }
  uint64_t event() const { return event_; }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  EventTracer* tracer_;
  uint64_t event_;
};

}  // namespace pteron
