// What a kernel may use during one call. Borrowed for the call.
//
//   if (EventTracer* const tracer = context.tracer()) { ... }
#pragma once

#include "pteron/runtime/backend/event_tracer.h"

namespace pteron {

// Belongs to one method. Not thread-safe.
class KernelContext final {
 public:
  explicit KernelContext(EventTracer* tracer = nullptr) : tracer_(tracer) {}

  EventTracer* tracer() const { return tracer_; }  // may be null

 private:
  EventTracer* tracer_;
};

}  // namespace pteron
