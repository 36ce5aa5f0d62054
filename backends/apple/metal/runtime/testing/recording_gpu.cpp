#include "pteron/backends/apple/metal/runtime/testing/recording_gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include "pteron/backends/apple/metal/runtime/testing/compiler.h"
#include "pteron/backends/apple/metal/runtime/testing/kernel_text.h"
#include "pteron/backends/apple/metal/runtime/testing/lockstep.h"

namespace pteron::metal {
namespace {

constexpr size_t kAlignment = 256, kMostBuffers = 31, kMostBytes = 4096;
constexpr uint32_t kLanes = 32;

// Of metal_stdlib.h.
struct Place {
  uint32_t thread_position_in_grid[3];
  uint32_t thread_position_in_threadgroup[3];
  uint32_t threadgroup_position_in_grid[3];
  uint32_t threads_per_threadgroup[3];
  uint32_t threads_per_grid[3];
  uint32_t threadgroups_per_grid[3];
  uint32_t thread_index_in_threadgroup[1];
  uint32_t thread_index_in_simdgroup[1];
  uint32_t simdgroup_index_in_threadgroup[1];
  uint32_t threads_per_simdgroup[1];
};

using Start = void (*)(const void* const* buffers, const Place& place);

// Kernels share threadgroup variables and thread stacks: one kernel runs at a time.
std::mutex& running() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

// One group, whose first thread is at `origin`.
Error run_group(Start start, const void* const* buffers, bool in_lockstep, Place place,
                const uint32_t* origin, const uint32_t* size) {
  std::copy(size, size + 3, place.threads_per_threadgroup);
  place.threads_per_simdgroup[0] = kLanes;
  const uint32_t count = size[0] * size[1] * size[2];
  const auto run = [&](uint32_t index) {
    Place mine = place;
    const uint32_t at[] = {index % size[0], index / size[0] % size[1], index / size[0] / size[1]};
    for (size_t d = 0; d < 3; ++d) {
      mine.thread_position_in_threadgroup[d] = at[d];
      mine.thread_position_in_grid[d] = origin[d] + at[d];
    }
    mine.thread_index_in_threadgroup[0] = index;
    mine.thread_index_in_simdgroup[0] = index % kLanes;
    mine.simdgroup_index_in_threadgroup[0] = index / kLanes;
    start(buffers, mine);
  };
  if (in_lockstep) return run_in_lockstep(count, run);
  for (uint32_t index = 0; index < count; ++index) run(index);
  return Error::Ok;
}

class RecordedFunction final : public Function {
 public:
  RecordedFunction(RecordingGpu* gpu, KernelText::Kernel kernel, Start start, bool in_lockstep)
      : gpu_(gpu), kernel_(std::move(kernel)), start_(start), in_lockstep_(in_lockstep) {}

  const std::string& name() const override { return kernel_.name; }
  uint64_t max_threads_per_group() const override { return kernel_.max_threads; }

  Error dispatch(Span<const Argument> arguments, Threads grid, Threads group) override {
    const void* buffers[kMostBuffers] = {};
    PTERON_RETURN_IF_ERROR(bind(arguments, buffers));
    const uint64_t threads = group[0] * group[1] * group[2];
    PTERON_CHECK_OR_RETURN(threads >= 1 && threads <= kernel_.max_threads, Error::InvalidArgument,
                           "%s: groups of %llu threads, expected 1 to %llu", name().c_str(),
                           static_cast<unsigned long long>(threads),
                           static_cast<unsigned long long>(kernel_.max_threads));
    for (const uint64_t size : grid) {
      PTERON_CHECK_OR_RETURN(size >= 1 && size <= UINT32_MAX, Error::InvalidArgument,
                             "%s: a grid with %llu threads along one dimension, expected 1 to %u",
                             name().c_str(), static_cast<unsigned long long>(size), UINT32_MAX);
    }
    return run(buffers, grid, group);
  }

 private:
  Error bind(Span<const Argument> arguments, const void** buffers) const {
    const std::vector<bool>& expected = kernel_.buffers;
    PTERON_CHECK_OR_RETURN(arguments.size() == expected.size(), Error::InvalidArgument,
                           "%s: %zu arguments, the kernel has %zu", name().c_str(),
                           arguments.size(), expected.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      PTERON_CHECK_OR_RETURN(arguments[i].data, Error::InvalidArgument, "%s: argument %zu is null",
                             name().c_str(), i);
      PTERON_CHECK_OR_RETURN(arguments[i].nbytes <= kMostBytes, Error::InvalidArgument,
                             "%s: argument %zu is copied and has %zu bytes, expected at most %zu",
                             name().c_str(), i, arguments[i].nbytes, kMostBytes);
      if (arguments[i].nbytes == 0) {
        PTERON_RETURN_IF_ERROR(gpu_->check_address(arguments[i].data)
                                   .with_context(name() + ": argument " + std::to_string(i)));
      }
      buffers[i] = arguments[i].data;
    }
    return Error::Ok;
  }

  Error run(const void* const* buffers, Threads grid, Threads group) const {
    const std::lock_guard<std::mutex> lock(running());
    Place place = {};
    for (size_t d = 0; d < 3; ++d) {
      place.threads_per_grid[d] = static_cast<uint32_t>(grid[d]);
      place.threadgroups_per_grid[d] = static_cast<uint32_t>((grid[d] + group[d] - 1) / group[d]);
    }
    uint32_t* const at = place.threadgroup_position_in_grid;
    const uint32_t* const groups = place.threadgroups_per_grid;
    for (at[2] = 0; at[2] < groups[2]; ++at[2]) {
      for (at[1] = 0; at[1] < groups[1]; ++at[1]) {
        for (at[0] = 0; at[0] < groups[0]; ++at[0]) {
          uint32_t origin[3], size[3];
          for (size_t d = 0; d < 3; ++d) {
            origin[d] = at[d] * static_cast<uint32_t>(group[d]);
            size[d] = static_cast<uint32_t>(std::min<uint64_t>(group[d], grid[d] - origin[d]));
          }
          Error error = run_group(start_, buffers, in_lockstep_, place, origin, size);
          if (!error.ok()) return std::move(error).with_context(name());
        }
      }
    }
    return Error::Ok;
  }

  RecordingGpu* const gpu_;
  const KernelText::Kernel kernel_;
  const Start start_;
  const bool in_lockstep_;
};

// Compiled text, cached per process.
struct Compiled {
  KernelText text;
  void* object = nullptr;
};

Result<const Compiled*> compiled(const std::string& source) {
  static std::mutex mutex;
  static auto& known = *new std::unordered_map<std::string, Compiled>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = known.find(source);
  if (found != known.end()) return &found->second;
  Compiled made;
  made.text = KernelText::parse(source);
  Result<void*> object = compile_and_open(made.text.cpp);
  if (!object.ok()) {
    return object.take_error().with_context("kernel " + made.text.names() + " does not compile");
  }
  made.object = *object;
  if (void* const host = dlsym(made.object, "msl_host")) {
    *static_cast<const MslHost**>(host) = msl_host();
  }
  return &known.emplace(source, std::move(made)).first->second;
}

class RecordedLibrary final : public Library {
 public:
  RecordedLibrary(RecordingGpu* gpu, const Compiled& compiled) : names_(compiled.text.names()) {
    for (const KernelText::Kernel& kernel : compiled.text.kernels) {
      void* const start = dlsym(compiled.object, ("msl_start_" + kernel.name).c_str());
      functions_.push_back(std::make_unique<RecordedFunction>(
          gpu, kernel, reinterpret_cast<Start>(start), compiled.text.in_lockstep));
    }
  }

  Result<Function*> find(const std::string& name) override {
    for (const auto& function : functions_) {
      if (function->name() == name) return function.get();
    }
    return make_error(Error::NotFound, "no kernel %s in the library, which has %s", name.c_str(),
                      names_.c_str());
  }

 private:
  std::vector<std::unique_ptr<Function>> functions_;
  const std::string names_;
};

}  // namespace

RecordingGpu::RecordingGpu() = default;
RecordingGpu::~RecordingGpu() = default;

Result<void*> RecordingGpu::allocate(size_t nbytes) {
  const size_t rounded = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = rounded < nbytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
  PTERON_CHECK_OR_RETURN(memory, Error::MemoryAllocationFailed, "no memory for %zu bytes", nbytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  allocations_[static_cast<const char*>(memory)] = rounded;
  return memory;
}

void RecordingGpu::release(void* memory) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    allocations_.erase(static_cast<const char*>(memory));
  }
  std::free(memory);
}

Error RecordingGpu::check_address(const void* address) {
  const auto* const at = static_cast<const char*>(address);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto after = allocations_.upper_bound(at);
  // An empty view may point one past the end.
  const bool inside =
      after != allocations_.begin() && at <= std::prev(after)->first + std::prev(after)->second;
  PTERON_CHECK_OR_RETURN(inside, Error::InvalidArgument,
                         "%p is no memory of the device, or has been released", address);
  return Error::Ok;
}

Result<std::unique_ptr<Library>> RecordingGpu::compile(const std::string& source) {
  PTERON_ASSIGN_OR_RETURN(const Compiled* const made, compiled(source));
  return std::unique_ptr<Library>(std::make_unique<RecordedLibrary>(this, *made));
}

}  // namespace pteron::metal
