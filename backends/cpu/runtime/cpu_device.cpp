#include "pteron/backends/cpu/runtime/cpu_device.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/openmp/denormals.h"
#include "pteron/runtime/platform/cpu_features.h"

namespace pteron::cpu {
namespace {

// How the code runs, on the thread that calls it and those that help.
class RunScope final : public aoti::ContainerScope {
 public:
  // `at_most`: OMP_NUM_THREADS and the caller's setting may make them fewer.
  RunScope(int threads, bool at_most, bool flush_denormals)
      : threads_(threads), at_most_(at_most), flush_denormals_(flush_denormals) {}

  Error enter() noexcept override {
    limit_.emplace(at_most_ ? std::min(threads_, max_threads()) : threads_);
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
  bool flushed_ = false;  // before
  std::optional<ThreadLimit> limit_;
};

}  // namespace

Error CpuDevice::set_option(const BackendOption& option) {
  if (option.key == "flush_denormals") {
    const bool* flush = std::get_if<bool>(&option.value);
    PTERON_CHECK_OR_RETURN(flush, Error::InvalidArgument,
                           "option flush_denormals: expected true or false");
    flush_denormals_ = *flush;
    return Error::Ok;
  }
  const int64_t* threads = std::get_if<int64_t>(&option.value);
  PTERON_CHECK_OR_RETURN(threads && *threads >= 1, Error::InvalidArgument,
                         "option num_threads: expected an integer of at least 1");
  requested_threads_ = *threads;
  return Error::Ok;
}

Error CpuDevice::check_machine(const aoti::Metadata& metadata) {
  PTERON_CHECK_OR_RETURN(!metadata.isa.empty(), Error::InvalidProgram,
                         "the metadata names no instruction set that the code was compiled for: "
                         "lower the model again");
  PTERON_RETURN_IF_ERROR(check_cpu(metadata.isa, metadata.cpu_features));
  const int64_t compiled = std::clamp<int64_t>(metadata.num_threads, 1, 4096);
  PTERON_CHECK_OR_RETURN(requested_threads_ <= compiled, Error::InvalidArgument,
                         "option num_threads: found %lld, the code was compiled for at most %lld: "
                         "lower the model for more threads",
                         static_cast<long long>(requested_threads_),
                         static_cast<long long>(compiled));
  threads_ = static_cast<int>(requested_threads_ ? requested_threads_ : compiled);
  return Error::Ok;
}

std::shared_ptr<aoti::ContainerScope> CpuDevice::scope() {
  return std::make_shared<RunScope>(threads_, requested_threads_ == 0, flush_denormals_);
}

}  // namespace pteron::cpu
