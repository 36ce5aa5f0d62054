// The OpenMP functions of compiled models, under private names
// (backends/aoti/shims/private_names.h).
//
// A failed assertion in a region ends the region, since g++ terminates the process on an exception
// that would leave it. The rest of the model's call gets no data (failed_check.h).
#include <atomic>
#include <cstdint>
#include <utility>

#include "pteron/backends/aoti/shims/failed_check.h"
#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/cpu/runtime/openmp/critical.h"
#include "pteron/backends/cpu/runtime/openmp/region.h"
#include "pteron/backends/cpu/runtime/openmp/thread_count.h"

namespace pteron::cpu::openmp {
namespace {

[[maybe_unused]] const bool registered = aoti::set_region_exit(
    {[](Error* error) noexcept { return fail_member(std::move(*error)); }, [] { leave_member(); }});

std::atomic<uint32_t> unnamed_critical{0};
std::atomic<uint32_t> atomic_section{0};

// The compiler provides a zero-initialized pointer per section name for our use.
std::atomic<uint32_t>& named_critical(void** name) {
  return *reinterpret_cast<std::atomic<uint32_t>*>(name);
}

}  // namespace

// GOMP_parallel: `threads` 0 means the default; `flags` are affinity hints.
PTERON_SHIM_EXPORT void ptrn_parallel(void (*body)(void*), void* data, unsigned threads,
                                      [[maybe_unused]] unsigned flags) {
  if (__builtin_expect(aoti::run_has_failed(), 0)) return;
  Error error = run_region(body, data, static_cast<int>(threads));
  if (__builtin_expect(!error.ok(), 0)) aoti::fail_run(std::move(error));
}

PTERON_SHIM_EXPORT void ptrn_barrier() { barrier(); }
PTERON_SHIM_EXPORT bool ptrn_single_start() { return begin_single(); }

PTERON_SHIM_EXPORT void ptrn_critical_start() { enter_critical(unnamed_critical); }
PTERON_SHIM_EXPORT void ptrn_critical_end() { leave_critical(unnamed_critical); }
PTERON_SHIM_EXPORT void ptrn_critical_name_start(void** name) {
  enter_critical(named_critical(name));
}
PTERON_SHIM_EXPORT void ptrn_critical_name_end(void** name) {
  leave_critical(named_critical(name));
}
PTERON_SHIM_EXPORT void ptrn_atomic_start() { enter_critical(atomic_section); }
PTERON_SHIM_EXPORT void ptrn_atomic_end() { leave_critical(atomic_section); }

PTERON_SHIM_EXPORT int ptrnget_thread_num() { return thread_num(); }
PTERON_SHIM_EXPORT int ptrnget_num_threads() { return num_threads(); }
PTERON_SHIM_EXPORT int ptrnget_max_threads() { return max_threads(); }
PTERON_SHIM_EXPORT int ptrnget_num_procs() { return num_processors(); }
PTERON_SHIM_EXPORT int ptrnin_parallel() { return in_region(); }
PTERON_SHIM_EXPORT void ptrnset_num_threads(int threads) { set_max_threads(threads); }

}  // namespace pteron::cpu::openmp
