// A vendor library, opened on first use.
//
//   PTERON_ASSIGN_OR_RETURN(DynamicLibrary blas, DynamicLibrary::open("libcublas.so.13"));
//   PTERON_ASSIGN_OR_RETURN(void* create, blas.symbol("cublasCreate_v2"));
//
// Nothing here links a vendor library, so a program with this backend starts on a machine without
// them. A library is searched in the process, then by the loader, then in the folders of
// $PTERON_CUDA_LIBRARY_PATH (colon-separated), then in /usr/local/cuda/lib64, then in Bazel's
// runfiles, where //third_party/cuda:libraries_at_run_time puts the pinned ones. An opened library
// stays open until the process ends. Thread-safe.
#pragma once

#include <string>

#include "pteron/runtime/core/result.h"

namespace pteron::cuda {

class DynamicLibrary final {
 public:
  // NotFound with every path tried and the loader's message.
  static Result<DynamicLibrary> open(const std::string& soname);

  // NotFound names the symbol and the library.
  Result<void*> symbol(const char* name) const;

 private:
  DynamicLibrary(void* handle, std::string soname) : handle_(handle), soname_(std::move(soname)) {}

  void* handle_;
  std::string soname_;
};

}  // namespace pteron::cuda
