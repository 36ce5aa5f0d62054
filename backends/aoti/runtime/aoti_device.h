// What a device adds to the delegate that all AOTInductor backends share.
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
#include "pteron/backends/aoti/runtime/metadata.h"
#include "pteron/backends/aoti/runtime/output_buffer.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/backend/interface.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// A run that succeeded, for AotiDevice::prepare().
struct FinishedRun {
  Span<EValue* const> arguments;  // inputs in order, then outputs
  Span<const bool> fixed;         // of each, as Delegate::prepare() has it
  size_t num_inputs = 0;
  std::function<bool(size_t input)> changes;  // whether the code writes to that input
  // The same with other arguments, on what begin_run() makes current.
  std::function<Error(Span<EValue* const> arguments)> execute;
};

class AotiDevice {
 public:
  virtual ~AotiDevice() = default;

  // What a model's metadata must say its device is: "cpu", "cuda".
  virtual std::string_view name() const = 0;

  // Keys that set_option() knows.
  virtual std::vector<std::string_view> option_keys() const { return {}; }
  // A load-time choice with one of those keys. InvalidArgument for a value that is no good.
  virtual Error set_option(const BackendOption& option) { return (void)option, Error::Ok; }

  // Whether this machine can run the model, judged before any of its code is loaded.
  virtual Error check_machine(const Metadata& metadata) = 0;
  // The variant to load, of one or more in ascending ISA level.
  virtual Result<size_t> choose_variant(Span<const Metadata> variants) {
    PTERON_RETURN_IF_ERROR(check_machine(variants[0]));
    return size_t{0};
  }
  // Whether files without metadata, written by others, may be run at all.
  virtual bool runs_without_metadata() const { return false; }

  // The device as the code names it: "cpu", "cuda:0".
  virtual std::string container_device() const { return std::string(name()); }
  // Where inputs must be and outputs are.
  virtual Device device() const { return {}; }
  // Around every call into the model's code; may be null. Asked for once.
  virtual std::shared_ptr<ContainerScope> scope() { return nullptr; }

  // A tensor for each of `constants`, over the bytes with the same index, which lie in the
  // program's mapping and outlive the delegate. In place by default.
  virtual Result<std::vector<slim::TensorPtr>> make_constants(
      Span<const ConstantInfo> constants, Span<const Span<const uint8_t>> bytes);

  // Around a whole execution: inputs bound, code run, outputs stored. end_run() follows every
  // begin_run() that succeeded, whatever happened in between.
  virtual Error begin_run() { return Error::Ok; }
  virtual void end_run() noexcept {}

  // Whether the next two are of use.
  virtual bool reuses_output_buffers() const { return false; }
  // Where outputs belong, in memory that nobody reads or writes while the code runs: where the code
  // asks for as many bytes, it may get these, and an output that comes to lie there need not be
  // copied. Until withdraw_output_buffers(), which follows the code, whether it failed or not,
  // and gets the outputs (null where there is none).
  virtual void offer_output_buffers(Span<const OutputBuffer>) {}
  virtual void withdraw_output_buffers(Span<slim::SlimTensor* const>) noexcept {}

  // Whether the next two are of use.
  virtual bool can_prepare() const { return false; }
  // As Delegate::prepare(); outside of begin_run() and end_run().
  virtual Error prepare(const FinishedRun& run) { return (void)run, Error::Ok; }
  // Inside a run: all of it at once, if prepare() was for arguments like these. False if not, and
  // then nothing is done.
  virtual Result<bool> run_prepared(Span<EValue* const>) { return false; }

  // What run() passes to the code; null is the device's default. Asked for inside a run.
  virtual void* stream() { return nullptr; }
};

}  // namespace pteron::aoti
