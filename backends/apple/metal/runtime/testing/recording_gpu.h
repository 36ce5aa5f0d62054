// A Metal device for tests: kernels run synchronously on the CPU, compiled by the host C++ compiler
// from the text that a Mac would compile. Invalid use is an error: memory of another device,
// missing arguments, too large threadgroups.
//
//   register_gpu(std::make_unique<RecordingGpu>());
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "pteron/backends/apple/metal/runtime/gpu.h"

namespace pteron::metal {

class RecordingGpu final : public Gpu {
 public:
  RecordingGpu();
  ~RecordingGpu() override;

  std::string describe() const override { return "recording device"; }
  Result<void*> allocate(size_t nbytes) override;
  void release(void* memory) noexcept override;
  Result<std::unique_ptr<Library>> compile(const std::string& source) override;
  Error wait() override { return Error::Ok; }

  // InvalidArgument unless `address` is in an allocation.
  Error check_address(const void* address);

 private:
  std::mutex mutex_;
  std::map<const char*, size_t> allocations_;
};

}  // namespace pteron::metal
