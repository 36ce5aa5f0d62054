// The CPU-specific part of the AOTInductor delegate.
#pragma once

#include <string>

#include "pteron/backends/aoti/runtime/aoti_device.h"
#include "pteron/backends/aoti/runtime/output_buffer_reuse.h"

namespace pteron::cpu {

// Option "num_threads" (integer): maximum threads of a run, from 1 to the limit that the code was
// compiled with, if any. Default: OMP_NUM_THREADS, or else the number of cores that the process may
// use, up to that limit. Never more than the processors that affinity and cgroup quotas allow.
//
// Option "flush_denormals" (bool): flushes denormals to zero during a run, which is faster if there
// are many. Default: the calling thread's floating-point mode.
//
// Option "isa" (string): the variant of the code to run, "x86-64-v3". Default: the highest level
// that this machine supports.
class CpuDevice final : public aoti::AotiDevice {
 public:
  std::string_view name() const override { return "cpu"; }
  std::vector<std::string_view> option_keys() const override {
    return {"num_threads", "flush_denormals", "isa"};
  }
  Error set_option(const BackendOption& option) override;
  Error check_machine(const aoti::Metadata& metadata) override;
  Result<size_t> choose_variant(Span<const aoti::Metadata> variants) override;
  std::shared_ptr<aoti::ContainerScope> scope() override;
  bool reuses_output_buffers() const override { return true; }
  void offer_output_buffers(Span<const aoti::OutputBuffer> buffers) override;
  void withdraw_output_buffers(Span<slim::SlimTensor* const> outputs) noexcept override;

 private:
  int64_t requested_threads_ = 0;  // 0: not set
  int threads_ = 1;
  bool flush_denormals_ = false;
  std::string isa_;  // empty: not set
  aoti::OutputBufferReuse output_buffers_;
};

}  // namespace pteron::cpu
