// What the Metal backend needs of a GPU: memory that the host reaches too, and kernels made of text.
//
//   PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
//   PTERON_ASSIGN_OR_RETURN(std::unique_ptr<Library> library, gpu->compile(source));
//   PTERON_ASSIGN_OR_RETURN(Function* const add, library->find("add"));
//   PTERON_RETURN_IF_ERROR(add->dispatch(arguments, {{count}}, {{256}}));
//   PTERON_RETURN_IF_ERROR(gpu->wait());
//
// There are two: the one of a Mac (darwin/), and a recording one for tests (recording/), which runs
// kernels on the processor and checks how it is used. A library that has one registers it when it is
// opened. All of it is thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::metal {

// What this runtime was built for, as programs name what they are linked for.
#if defined(__APPLE__) && defined(__aarch64__)
inline constexpr const char* kPlatform = "macos-arm64";
#elif defined(__aarch64__)
inline constexpr const char* kPlatform = "linux-aarch64";
#else
inline constexpr const char* kPlatform = "linux-x86_64";
#endif

// Argument number i of a kernel is its buffer i.
struct Argument {
  // On the device, anywhere in an allocation, if nbytes is 0; else on the host, and copied.
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
  // Queues the kernel after whatever was queued before, for `grid` threads in groups of at most
  // `group`; none of the numbers is 0.
  virtual Error dispatch(Span<const Argument> arguments, Threads grid, Threads group) = 0;
};

class Library {
 public:
  virtual ~Library() = default;
  // Owned by the library. NotFound names those that it has.
  virtual Result<Function*> find(const std::string& name) = 0;
};

class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual std::string describe() const = 0;
  // Uninitialised bytes at an address that host and device share, aligned to 256.
  virtual Result<void*> allocate(size_t nbytes) = 0;
  // What was queued may still use it.
  virtual void release(void* memory) noexcept = 0;
  // InvalidProgram names the kernels of `source`, and the line that is wrong.
  virtual Result<std::unique_ptr<Library>> compile(const std::string& source) = 0;
  // Returns when all that was queued is done; the host may then read and write the memory.
  virtual Error wait() = 0;
};

// The first one stays. It lives as long as the process.
void register_gpu(std::unique_ptr<Gpu> gpu);
// NotFound, with the devices that there are, if there is none.
Result<Gpu*> find_gpu();

}  // namespace pteron::metal
