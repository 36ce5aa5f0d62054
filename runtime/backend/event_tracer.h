// Receives events inside a method. Costs one pointer test without a tracer.
//
// Called on the thread that executes the method. Names are borrowed for the call.
#pragma once

#include <cstdint>
#include <string_view>

namespace pteron {

class EventTracer {
 public:
  virtual ~EventTracer() = default;
  // Begins an event; pass the result to end().
  virtual uint64_t begin(std::string_view category, std::string_view name) = 0;
  virtual void end(uint64_t event) = 0;
};

// An event for a scope; does nothing without a tracer.
class TraceScope final {
 public:
  TraceScope(EventTracer* tracer, std::string_view category, std::string_view name)
      : tracer_(tracer), event_(tracer ? tracer->begin(category, name) : 0) {}
  ~TraceScope() {
    if (tracer_) tracer_->end(event_);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  EventTracer* tracer_;
  uint64_t event_;
};

}  // namespace pteron
