#include "pteron/backends/aoti/runtime/kernel_trace.h"

#include <algorithm>
#include <cctype>
#include <string>
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

// "0 <= tmp2 < 10L" as "0 <= index < 10": the code's names and literals.
std::string range_of_index(const std::string& code) {
  std::string text;
  for (size_t i = 0; i < code.size();) {
    size_t end = i;
    while (end < code.size() && (std::isalnum(static_cast<unsigned char>(code[end])) != 0)) ++end;
    std::string word = code.substr(i, end - i);
    if (word.rfind("tmp", 0) == 0) word = "index";
    if (word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[0])) && word.back() == 'L')
      word.pop_back();
    text += word;
    if (end < code.size()) text += code[end];
    i = end + 1;
  }
  return text;
}

}  // namespace

Error KernelTrace::in_the_model(Error error) const {
  static const std::string kBounds = "index out of bounds: ", kFile = ", <stdin>:";
  const std::string& message = error.message();
  const size_t file = message.rfind(kFile);
  const size_t open = file == std::string::npos ? file : message.rfind(" (", file);
  if (open == std::string::npos) return error;
  const std::string name = message.substr(open + 2, file - open - 2);
  const auto kernel = std::find_if(kernels_.begin(), kernels_.end(),
                                   [&](const KernelInfo& info) { return info.name == name; });
  std::string what = message.substr(0, open);
  if (const size_t at = what.find(kBounds); at != std::string::npos) {
    what = what.substr(0, at + kBounds.size()) + range_of_index(what.substr(at + kBounds.size()));
  }
  if (kernel == kernels_.end() || kernel->op.empty()) return Error(error.code(), what);
  what.append(" (").append(kernel->op);
  if (!kernel->source.empty()) what.append(", ").append(kernel->source);
  return Error(error.code(), what + ")");
}

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
