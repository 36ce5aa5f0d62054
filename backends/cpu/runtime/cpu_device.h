// The CPU, as the shared delegate asks for it.
#pragma once

#include <string>

#include "pteron/backends/aoti/runtime/aoti_device.h"
#include "pteron/backends/aoti/runtime/output_buffer_reuse.h"

namespace pteron::cpu {

// Option "num_threads" (integer): most threads that a run uses, from 1 to the number that the code
// was compiled for, if that is for no more than some. Without it: what OMP_NUM_THREADS says, or else
// the number of cores that the process may use, up to that number. Never more than the processors
// that affinity and the quotas of control groups leave.
//
// Option "flush_denormals" (bool): while it runs, numbers too small for full precision are taken as
// zero, which is faster where there are many. Without it they are taken as the calling thread does:
// exactly, unless it has said otherwise.
//
// Option "isa" (text): the variant of the code to run, "x86-64-v3". Without it: the last one, and so
// the best, that this machine has.
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
  int64_t requested_threads_ = 0;  // 0: no option
  int threads_ = 1;
  bool flush_denormals_ = false;
  std::string isa_;  // empty: no option
  aoti::OutputBufferReuse output_buffers_;
};

}  // namespace pteron::cpu
