// The CUDA-specific part of the AOTInductor delegate, one object per delegate.
//
// Runs on the program's device, or on the one that LoadMethodOptions::devices maps it to.
//
// Options at load:
//   allow_tf32       bool: float32 matmuls may round their operands to TF32
//   record_products  bool: a matmul that a thread calls for the third time, at the same addresses,
//                    is launched from a recording, for half of cuBLAS' host time. Only for programs
//                    in which no thread synchronizes the device (cudaDeviceSynchronize,
//                    torch.cuda.synchronize) while another runs the method: that would fail or crash
//                    (kernels/recorded_launch.h). Synchronizing streams and events is allowed.
//   max_graphs       int: how many CUDA graphs of Method::prepare() each delegate keeps (8), one per
//                    tuple of input sizes; the least recently used is evicted
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/backends/aoti/runtime/aoti_device.h"
#include "pteron/backends/aoti/runtime/output_buffer_reuse.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/cuda_graphs.h"
#include "pteron/backends/cuda/runtime/cuda_stream.h"
#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/loaded_modules.h"
#include "pteron/runtime/backend/device_map.h"
#include "pteron/runtime/backend/interface.h"

namespace pteron::cuda {

// Compile specs of the backend that the runtime reads; the others are for lowering.
struct CudaSpecs {
  int device = 0;
  bool allow_tf32 = false;
  // `devices` (may be null) override those in the specs. InvalidProgram: an invalid value.
  static Result<CudaSpecs> parse(Span<const CompileSpec> specs, const DeviceMap* devices);
};

class CudaDevice final : public aoti::AotiDevice {
 public:
  // `shared` is the slot of the method that is being loaded; it outlives this object.
  CudaDevice(const CudaSpecs& specs, std::shared_ptr<void>* shared);
  ~CudaDevice() override;

  // Whether a CUDA program was loaded in this process itself, not only in a parent before fork().
  static bool is_used_here();

  std::string_view name() const override { return "cuda"; }
  std::vector<std::string_view> option_keys() const override {
    return {"allow_tf32", "max_graphs", "record_products"};
  }
  Error set_option(const BackendOption& option) override;
  // Also creates the stream.
  Error check_machine(const aoti::Metadata& metadata) override;
  std::string container_device() const override { return "cuda:" + std::to_string(index_); }
  Device device() const override { return Device{DeviceType::CUDA, static_cast<int8_t>(index_)}; }
  std::shared_ptr<aoti::ContainerScope> scope() override;
  Result<std::vector<slim::TensorPtr>> make_constants(
      Span<const aoti::ConstantInfo> constants, Span<const Span<const uint8_t>> bytes) override;
  Error begin_run() override;
  void end_run() noexcept override;
  bool reuses_output_buffers() const override { return true; }
  void offer_output_buffers(Span<const aoti::OutputBuffer> buffers) override {
    output_buffers_.offer(buffers, device());
  }
  void withdraw_output_buffers(Span<slim::SlimTensor* const> outputs) noexcept override {
    output_buffers_.withdraw(outputs);
  }
  bool can_prepare() const override { return true; }
  Error prepare(const aoti::FinishedRun& run) override;
  Result<bool> run_prepared(Span<EValue* const> arguments) override;
  std::unique_ptr<aoti::KernelTimer> kernel_timer() override;
  void* stream() override { return slim::current_cuda_stream(index_); }

 private:
  class Scope;
  Error capture(const aoti::FinishedRun& run);

  const int index_;
  std::shared_ptr<void>* const shared_;
  std::shared_ptr<MethodStream> stream_;
  LoadedModules modules_;
  aoti::OutputBufferReuse output_buffers_;
  ExecutionResources resources_;
  std::shared_ptr<Scope> scope_;
  CudaGraphs graphs_;
};

}  // namespace pteron::cuda
