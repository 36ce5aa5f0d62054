// Traces what the code of a delegate calls: its compiled kernels and the runtime's shims.
//
//   KernelTrace trace(container->object(), metadata.kernels);
//   {
//     const KernelTrace::Run run(trace, tracer, device);    // on the thread that runs the code
//     ... run the code ...
//   }
//
// Lowering (inductor/kernel_events.py) puts a PteronKernel around each call, which tests one
// pointer in the shared object. A Run sets that pointer, for all threads that run this code, to
// functions that look up their own thread's Run: runs that are not traced are not recorded.
// Code without such calls (of earlier versions) has no events. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pteron/backends/aoti/runtime/container/shared_object.h"
#include "pteron/backends/aoti/runtime/metadata.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/backend/event_tracer.h"
#include "pteron/runtime/core/error.h"

namespace pteron::aoti {

// Measures kernels on a device; one per traced run.
class KernelTimer {
 public:
  virtual ~KernelTimer() = default;
  // Around the launch of a kernel, whose event is `event`.
  virtual void begin(uint64_t event) = 0;
  virtual void end() = 0;
  // After the run: waits for the device, and calls EventTracer::record_on_device().
  virtual void report(EventTracer& tracer) = 0;
};

class KernelTrace final {
 public:
  // `kernels` borrow their text.
  KernelTrace(std::shared_ptr<SharedObject> object, std::vector<KernelInfo> kernels)
      : object_(std::move(object)), kernels_(std::move(kernels)) {}

  // `error` of a run; where a kernel's check failed, with the operators and lines of the model
  // instead of those of the generated code.
  Error in_the_model(Error error) const;

  class Run final {
   public:
    // `timer` may be null.
    Run(const KernelTrace& trace, EventTracer& tracer, std::unique_ptr<KernelTimer> timer);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    // Called by the code.
    uint64_t begin(uint32_t kernel);
    void end(uint64_t event, uint32_t kernel, slim::SlimTensor* const* tensors, size_t count);

   private:
    const KernelTrace& trace_;
    EventTracer& tracer_;
    std::unique_ptr<KernelTimer> timer_;
    Run* const before_;
    int64_t* const counted_before_;
    int64_t nbytes_ = 0;  // of tensors that the code has allocated
    std::string shapes_;
  };

 private:
  std::shared_ptr<SharedObject> object_;
  std::vector<KernelInfo> kernels_;
};

}  // namespace pteron::aoti
