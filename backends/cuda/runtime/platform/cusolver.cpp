#include "pteron/backends/cuda/runtime/platform/cusolver.h"

#include <memory>
#include <mutex>
#include <string>

#include "pteron/backends/cuda/runtime/platform/function_table.h"

namespace pteron::cuda {
namespace {

template <typename T>
Error load(const DynamicLibrary& library, char letter, CusolverFunctions<T>* functions) {
  const auto find = [&](const char* name, auto* function) {
    return load_function(library, (std::string("cusolverDn") + letter + name).c_str(), function);
  };
  PTERON_RETURN_IF_ERROR(find("getrf_bufferSize", &functions->getrf_size));
  PTERON_RETURN_IF_ERROR(find("getrf", &functions->getrf));
  PTERON_RETURN_IF_ERROR(find("getrs", &functions->getrs));
  PTERON_RETURN_IF_ERROR(find("potrf_bufferSize", &functions->potrf_size));
  PTERON_RETURN_IF_ERROR(find("potrf", &functions->potrf));
  PTERON_RETURN_IF_ERROR(find("potrs", &functions->potrs));
  PTERON_RETURN_IF_ERROR(find("geqrf_bufferSize", &functions->geqrf_size));
  PTERON_RETURN_IF_ERROR(find("geqrf", &functions->geqrf));
  PTERON_RETURN_IF_ERROR(find("orgqr_bufferSize", &functions->orgqr_size));
  PTERON_RETURN_IF_ERROR(find("orgqr", &functions->orgqr));
  PTERON_RETURN_IF_ERROR(find("syevd_bufferSize", &functions->syevd_size));
  PTERON_RETURN_IF_ERROR(find("syevd", &functions->syevd));
  PTERON_RETURN_IF_ERROR(find("gesvd_bufferSize", &functions->gesvd_size));
  return find("gesvd", &functions->gesvd);
}

Error open(Cusolver* solver) {
  PTERON_ASSIGN_OR_RETURN(DynamicLibrary library, DynamicLibrary::open("libcusolver.so.12"));
  PTERON_RETURN_IF_ERROR(load_function(library, "cusolverDnCreate", &solver->create));
  PTERON_RETURN_IF_ERROR(load_function(library, "cusolverDnSetStream", &solver->set_stream));
  PTERON_RETURN_IF_ERROR(load(library, 'S', &solver->floats));
  return load(library, 'D', &solver->doubles);
}

}  // namespace

Result<const Cusolver*> Cusolver::get() {
  static std::mutex mutex;
  static const Cusolver* opened = nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  if (!opened) {
    auto solver = std::make_unique<Cusolver>();
    PTERON_RETURN_IF_ERROR(open(solver.get()));
    opened = solver.release();
  }
  return opened;
}

}  // namespace pteron::cuda
