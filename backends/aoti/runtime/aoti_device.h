// The device-specific part of the delegate that all AOTInductor backends share.
//
//   class CpuDevice final : public AotiDevice { ... };
//   return load_delegate(context, processed, std::make_unique<CpuDevice>());
//
// One object per delegate; calls come from one thread at a time, in the order of the functions
// below.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/backends/aoti/runtime/container/container.h"
#include "pteron/backends/aoti/runtime/kernel_trace.h"
#include "pteron/backends/aoti/runtime/metadata.h"
#include "pteron/backends/aoti/runtime/output_buffer.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// A successful run, for AotiDevice::prepare().
struct FinishedRun {
  Span<EValue* const> arguments;  // inputs in order, then outputs
  Span<const bool> fixed;         // for each argument, as in Delegate::prepare()
  size_t num_inputs = 0;
  std::function<bool(size_t input)> changes;  // whether the code writes to that input
  // Runs again with other arguments, on the device and stream that begin_run() makes current.
  std::function<Error(Span<EValue* const> arguments)> execute;
};

class AotiDevice {
 public:
  virtual ~AotiDevice() = default;

  // The device name expected in a model's metadata: "cpu", "cuda".
  virtual std::string_view name() const = 0;

  // Keys that set_option() accepts.
  virtual std::vector<std::string_view> option_keys() const { return {}; }
  // Sets a load option with one of those keys. InvalidArgument for an invalid value.
  virtual Error set_option(const BackendOption& option) { return (void)option, Error::Ok; }

  // Whether this machine can run the model; called before any code is loaded.
  virtual Error check_machine(const Metadata& metadata) = 0;
  // The variant to load, from one or more in ascending ISA level.
  virtual Result<size_t> choose_variant(Span<const Metadata> variants) {
    PTERON_RETURN_IF_ERROR(check_machine(variants[0]));
    return size_t{0};
  }
  // Whether files of other writers, without metadata, may run.
  virtual bool runs_without_metadata() const { return false; }

  // The device name for the model's code: "cpu", "cuda:0".
  virtual std::string container_device() const { return std::string(name()); }
  // Where inputs must be and outputs are.
  virtual Device device() const { return {}; }
  // Entered around every call into the model's code; may be null. Called once.
  virtual std::shared_ptr<ContainerScope> scope() { return nullptr; }

  // A tensor for each of `constants`, over the bytes with the same index, which are in the
  // program's mapping and outlive the delegate. By default the bytes are used in place.
  virtual Result<std::vector<slim::TensorPtr>> make_constants(
      Span<const ConstantInfo> constants, Span<const Span<const uint8_t>> bytes);

  // Called around a whole execution: bind inputs, run code, store outputs. end_run() follows every
  // successful begin_run(), also after a failure.
  virtual Error begin_run() { return Error::Ok; }
  virtual void end_run() noexcept {}

  // Whether the next two functions do anything.
  virtual bool reuses_output_buffers() const { return false; }
  // Offers the memory of outputs, which nothing else accesses while the code runs. An allocation of
  // the same size may return such a buffer, and an output computed there is not copied. Valid until
  // withdraw_output_buffers(), which is called after the code, also on failure, with the outputs
  // (null if there is none).
  virtual void offer_output_buffers(Span<const OutputBuffer>) {}
  virtual void withdraw_output_buffers(Span<slim::SlimTensor* const>) noexcept {}

  // Whether the next two functions do anything.
  virtual bool can_prepare() const { return false; }
  // As Delegate::prepare(); called outside begin_run() and end_run().
  virtual Error prepare(const FinishedRun& run) { return (void)run, Error::Ok; }
  // Inside a run: launches the whole run, if it was prepared for such arguments. False if not;
  // nothing was done then.
  virtual Result<bool> run_prepared(Span<EValue* const>) { return false; }

  // Measures kernels of a traced run, which is not a prepared one; null: on the host only. Called
  // inside a run.
  virtual std::unique_ptr<KernelTimer> kernel_timer() { return nullptr; }

  // The stream that run() passes to the code; null is the device's default. Called inside a run.
  virtual void* stream() { return nullptr; }
};

}  // namespace pteron::aoti
