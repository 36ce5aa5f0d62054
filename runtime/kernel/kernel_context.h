// What a kernel may use during one call. Borrowed for the call.
//
//   PTERON_ASSIGN_OR_RETURN(void* scratch, context.scratch(nbytes));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "pteron/runtime/backend/event_tracer.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"

namespace pteron {

// Belongs to one method. Not thread-safe.
class KernelContext final {
 public:
  explicit KernelContext(EventTracer* tracer = nullptr) : tracer_(tracer) {}

  EventTracer* tracer() const { return tracer_; }  // may be null

  // Uninitialised memory, aligned to 64, until the end of the call; a second request in one call
  // ends the first. It is kept for later calls, so that a method allocates only until it has seen
  // its largest request. MemoryAllocationFailed.
  Result<void*> scratch(size_t nbytes);

 private:
  struct Free {
    void operator()(void* pointer) const;
  };

  EventTracer* tracer_;
  std::unique_ptr<void, Free> scratch_;
  size_t scratch_nbytes_ = 0;
};

}  // namespace pteron
