#include "pteron/backends/cpu/runtime/cpu_device.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/runtime/platform/cpu_features.h"

namespace pteron::cpu {
namespace {

// The thread setting that the code was compiled for, while it runs.
class ThreadScope final : public aoti::ContainerScope {
 public:
  explicit ThreadScope(int threads) : threads_(threads) {}
  Error enter() noexcept override {
    limit_.emplace(std::min(threads_, max_threads()));
    return Error::Ok;
  }
  void leave() noexcept override { limit_.reset(); }

 private:
  int threads_;
  std::optional<ThreadLimit> limit_;
};

// As above, with a number that the user chose, whatever OMP_NUM_THREADS says.
class FixedThreadScope final : public aoti::ContainerScope {
 public:
  explicit FixedThreadScope(int threads) : threads_(threads) {}
  Error enter() noexcept override {
    limit_.emplace(threads_);
    return Error::Ok;
  }
  void leave() noexcept override { limit_.reset(); }

 private:
  int threads_;
  std::optional<ThreadLimit> limit_;
};

}  // namespace

Error CpuDevice::set_option(const BackendOption& option) {
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
  if (requested_threads_) return std::make_shared<FixedThreadScope>(threads_);
  return std::make_shared<ThreadScope>(threads_);
}

}  // namespace pteron::cpu
