#include "pteron/backends/cpu/runtime/cpu_device.h"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>

#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/openmp/denormals.h"
#include "pteron/backends/cpu/runtime/openmp/thread_count.h"
#include "pteron/runtime/core/catch_exceptions.h"
#include "pteron/runtime/platform/cpu_features.h"

namespace pteron::cpu {
namespace {

// Settings of a run, on the calling thread and the workers.
class RunScope final : public aoti::ContainerScope {
 public:
  // `at_most`: OMP_NUM_THREADS and the caller's setting may lower it.
  RunScope(int threads, bool at_most, bool flush_denormals)
      : threads_(threads), at_most_(at_most), flush_denormals_(flush_denormals) {}

  Error enter() noexcept override {
    PTERON_RETURN_IF_ERROR(catch_exceptions([this]() -> Error {  // the first counts processors
      limit_.emplace(at_most_ ? std::min(threads_, max_threads()) : threads_);
      return Error::Ok;
    }));
    flushed_ = openmp::flushes_denormals();
    if (flush_denormals_) openmp::set_flush_denormals(true);
    return Error::Ok;
  }
  void leave() noexcept override {
    if (flush_denormals_) openmp::set_flush_denormals(flushed_);
    limit_.reset();
  }

 private:
  int threads_;
  bool at_most_;
  bool flush_denormals_;
  bool flushed_ = false;  // the calling thread's previous setting
  std::optional<ThreadLimit> limit_;
};

// Copying smaller outputs is faster than finding their allocation.
constexpr size_t kLeastReused = 16 << 10;

}  // namespace

Error CpuDevice::set_option(const BackendOption& option) {
  if (option.key == "flush_denormals") {
    const bool* flush = std::get_if<bool>(&option.value);
    PTERON_CHECK_OR_RETURN(flush, Error::InvalidArgument,
                           "option flush_denormals: expected true or false");
    flush_denormals_ = *flush;
    return Error::Ok;
  }
  if (option.key == "isa") {
    const std::string* isa = std::get_if<std::string>(&option.value);
    PTERON_CHECK_OR_RETURN(isa && !isa->empty(), Error::InvalidArgument,
                           "option isa: expected a level such as x86-64-v3");
    isa_ = *isa;
    return Error::Ok;
  }
  const int64_t* threads = std::get_if<int64_t>(&option.value);
  PTERON_CHECK_OR_RETURN(threads && *threads >= 1, Error::InvalidArgument,
                         "option num_threads: expected an integer of at least 1");
  requested_threads_ = *threads;
  return Error::Ok;
}

Result<size_t> CpuDevice::choose_variant(Span<const aoti::Metadata> variants) {
  std::string levels, fitting;
  const aoti::Metadata* chosen = nullptr;
  for (const aoti::Metadata& variant : variants) {
    levels.append(levels.empty() ? "" : ", ").append(variant.isa);
    if (variants.size() > 1 && !check_cpu(variant.isa, variant.cpu_features).ok()) continue;
    fitting.append(fitting.empty() ? "" : ", ").append(variant.isa);
    if (isa_.empty() || isa_ == variant.isa) chosen = &variant;
  }
  PTERON_CHECK_OR_RETURN(
      chosen, isa_.empty() ? Error::DelegateInvalidCompatibility : Error::InvalidArgument,
      "%s%s: code was compiled for %s; this machine is %s and runs %s",
      isa_.empty() ? "" : "option isa, ", isa_.empty() ? "instruction set" : isa_.c_str(),
      levels.c_str(), std::string(cpu_isa_level()).c_str(),
      fitting.empty() ? "none of them" : fitting.c_str());
  PTERON_RETURN_IF_ERROR(check_machine(*chosen));
  return static_cast<size_t>(chosen - variants.data());
}

Error CpuDevice::check_machine(const aoti::Metadata& metadata) {
  PTERON_CHECK_OR_RETURN(!metadata.isa.empty(), Error::InvalidProgram,
                         "the metadata names no instruction set that the code was compiled for: "
                         "lower the model again");
  PTERON_RETURN_IF_ERROR(check_cpu(metadata.isa, metadata.cpu_features));
  const int64_t compiled = metadata.num_threads ? metadata.num_threads : openmp::kMaxTeam;
  PTERON_CHECK_OR_RETURN(requested_threads_ <= compiled, Error::InvalidArgument,
                         "option num_threads: found %lld, the code was compiled for at most %lld: "
                         "lower the model for more threads",
                         static_cast<long long>(requested_threads_),
                         static_cast<long long>(compiled));
  threads_ = static_cast<int>(std::min<int64_t>(requested_threads_ ? requested_threads_ : compiled,
                                                openmp::num_processors()));
  return Error::Ok;
}

std::shared_ptr<aoti::ContainerScope> CpuDevice::scope() {
  return std::make_shared<RunScope>(threads_, requested_threads_ == 0, flush_denormals_);
}

void CpuDevice::offer_output_buffers(Span<const aoti::OutputBuffer> buffers) {
  const auto is_large = [](const aoti::OutputBuffer& b) { return b.nbytes >= kLeastReused; };
  if (std::none_of(buffers.begin(), buffers.end(), is_large)) return;
  output_buffers_.offer(buffers, Device{});
  slim::set_storage_source(&output_buffers_);
}

void CpuDevice::withdraw_output_buffers(Span<slim::SlimTensor* const> outputs) noexcept {
  slim::set_storage_source(nullptr);
  output_buffers_.withdraw(outputs);
}

}  // namespace pteron::cpu
