#include "pteron/backends/aoti/runtime/kernel_trace.h"

#include <algorithm>
#include <utility>

#include "pteron/backends/aoti/slim/core/caching_allocator.h"
#include "pteron/runtime/core/catch_exceptions.h"

namespace pteron::aoti {
namespace {

constexpr uint64_t kNoEvent = UINT64_MAX;

thread_local KernelTrace::Run* current = nullptr;

// The struct PteronTracing of generated code. What it calls throws nothing.
struct Tracing {
  uint64_t (*begin)(uint32_t kernel) noexcept;
  void (*end)(uint64_t event, uint32_t kernel, slim::SlimTensor* const* tensors,
              size_t count) noexcept;
};

constexpr Tracing kTracing = {
    [](uint32_t kernel) noexcept {
      uint64_t event = kNoEvent;
      if (current) {
        (void)catch_exceptions([&]() -> Error {
          event = current->begin(kernel);
          return Error::Ok;
        });
      }
      return event;
    },
    [](uint64_t event, uint32_t kernel, slim::SlimTensor* const* tensors, size_t count) noexcept {
      if (event == kNoEvent || !current) return;
      (void)catch_exceptions([&]() -> Error {
        current->end(event, kernel, tensors, count);
        return Error::Ok;
      });
    },
};

void append_shape(std::string& text, const slim::SlimTensor& tensor) {
  if (!text.empty()) text += ' ';
  text += slim::name_of(tensor.dtype());
  text += '[';
  for (size_t i = 0; i < tensor.dim(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(tensor.size(i));
  }
  text += ']';
}

}  // namespace

KernelTrace::Run::Run(const KernelTrace& trace, EventTracer& tracer,
                      std::unique_ptr<KernelTimer> timer)
    : trace_(trace),
      tracer_(tracer),
      timer_(std::move(timer)),
      before_(std::exchange(current, this)),
      counted_before_(std::exchange(slim::counted_bytes(), &nbytes_)) {
  trace_.object_->begin_tracing(&kTracing);
}

KernelTrace::Run::~Run() {
  trace_.object_->end_tracing();
  current = before_;
  slim::counted_bytes() = counted_before_;
  (void)catch_exceptions([this]() -> Error {
    tracer_.count("intermediate tensors (bytes)", 0);
    if (timer_) timer_->report(tracer_);
    return Error::Ok;
  });
}

uint64_t KernelTrace::Run::begin(uint32_t kernel) {
  const bool known = kernel < trace_.kernels_.size();
  const KernelInfo info = known ? trace_.kernels_[kernel] : KernelInfo{"unknown", "", "", ""};
  tracer_.count("intermediate tensors (bytes)",
                static_cast<uint64_t>(std::max<int64_t>(nbytes_, 0)));
  const bool is_shim = info.name.substr(0, 11) == "aoti_torch_";
  const uint64_t event = tracer_.begin(is_shim ? "shim" : "compiled", info.name);
  if (timer_) timer_->begin(event);
  return event;
}

void KernelTrace::Run::end(uint64_t event, uint32_t kernel, slim::SlimTensor* const* tensors,
                           size_t count) {
  if (timer_) timer_->end();
  EventDetails details;
  if (kernel < trace_.kernels_.size()) {
    const KernelInfo& info = trace_.kernels_[kernel];
    details.op = info.op;
    details.module = info.module;
    details.source = info.source;
  }
  shapes_.clear();
  for (size_t i = 0; i < count; ++i) {
    if (!tensors[i] || !tensors[i]->is_defined()) continue;
    append_shape(shapes_, *tensors[i]);
    details.nbytes += tensors[i]->nbytes();
  }
  details.shapes = shapes_;
  tracer_.end(event);
  tracer_.describe(event, details);
}

}  // namespace pteron::aoti
