// The GPU interface of the Metal backend: shared memory, and kernels compiled from source text.
//
//   PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
//   PTERON_ASSIGN_OR_RETURN(std::unique_ptr<Library> library, gpu->compile(source));
//   PTERON_ASSIGN_OR_RETURN(Function* const add, library->find("add"));
//   PTERON_RETURN_IF_ERROR(add->dispatch(arguments, {{count}}, {{256}}));
//   PTERON_RETURN_IF_ERROR(gpu->wait());
//
// Two implementations: a real one (darwin/), and a recording one for tests (recording/), which runs
// kernels on the CPU and checks how it is used. A library registers its implementation when it is
// opened. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::metal {

// The platform this runtime was built for, in the notation of programs.
#if defined(__APPLE__) && defined(__aarch64__)
inline constexpr const char* kPlatform = "macos-arm64";
#elif defined(__aarch64__)
inline constexpr const char* kPlatform = "linux-aarch64";
#else
inline constexpr const char* kPlatform = "linux-x86_64";
#endif

// Argument number i of a kernel is its buffer i.
struct Argument {
  // If nbytes is 0, a device address inside an allocation; otherwise host memory, which is copied.
  const void* data = nullptr;
  size_t nbytes = 0;
};

// Threads along x, y, z.
using Threads = std::array<uint64_t, 3>;

class Function {
 public:
  virtual ~Function() = default;
  virtual const std::string& name() const = 0;
  virtual uint64_t max_threads_per_group() const = 0;
  // Queues the kernel after all earlier work, for `grid` threads in threadgroups of at most
  // `group`; no size is 0.
  virtual Error dispatch(Span<const Argument> arguments, Threads grid, Threads group) = 0;
};

class Library {
 public:
  virtual ~Library() = default;
  // Owned by the library. NotFound lists the kernels of the library.
  virtual Result<Function*> find(const std::string& name) = 0;
};

class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual std::string describe() const = 0;
  // Uninitialized bytes at an address that host and device share, aligned to 256.
  virtual Result<void*> allocate(size_t nbytes) = 0;
  // Queued work may still use it.
  virtual void release(void* memory) noexcept = 0;
  // InvalidProgram names the kernels of `source` and the erroneous line.
  virtual Result<std::unique_ptr<Library>> compile(const std::string& source) = 0;
  // Returns when all queued work is done; the host may then access the memory.
  virtual Error wait() = 0;
};

// Only the first registration has an effect. Lives as long as the process.
void register_gpu(std::unique_ptr<Gpu> gpu);
// NotFound if there is none; the message lists the available devices.
Result<Gpu*> find_gpu();

}  // namespace pteron::metal
