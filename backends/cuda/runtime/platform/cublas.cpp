#include "pteron/backends/cuda/runtime/platform/cublas.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "pteron/backends/cuda/runtime/platform/function_table.h"

namespace pteron::cuda {
namespace {

Result<std::unique_ptr<Cublas>> open_cublas() {
  // cublasLt first: it is a dependency of cuBLAS and then already loaded.
  PTERON_ASSIGN_OR_RETURN(DynamicLibrary lt, DynamicLibrary::open("libcublasLt.so.13"));
  PTERON_ASSIGN_OR_RETURN(DynamicLibrary blas, DynamicLibrary::open("libcublas.so.13"));
  auto table = std::make_unique<Cublas>();
#define PTERON_LOAD(member, function, symbol) \
  PTERON_RETURN_IF_ERROR(load_function(blas, symbol, &table->member));
  PTERON_CUBLAS_FUNCTIONS(PTERON_LOAD)
#undef PTERON_LOAD
#define PTERON_LOAD(member, function, symbol) \
  PTERON_RETURN_IF_ERROR(load_function(lt, symbol, &table->member));
  PTERON_CUBLASLT_FUNCTIONS(PTERON_LOAD)
#undef PTERON_LOAD
  return table;
}

}  // namespace

Result<const Cublas*> Cublas::get() {
  static std::atomic<const Cublas*> table{nullptr};
  if (const Cublas* blas = table.load(std::memory_order_acquire)) return blas;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (const Cublas* blas = table.load(std::memory_order_relaxed)) return blas;
  PTERON_ASSIGN_OR_RETURN(std::unique_ptr<Cublas> blas, open_cublas());
  const Cublas* opened = blas.release();  // lives as long as the process
  table.store(opened, std::memory_order_release);
  return opened;
}

}  // namespace pteron::cuda
