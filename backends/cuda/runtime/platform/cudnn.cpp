#include "pteron/backends/cuda/runtime/platform/cudnn.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "pteron/backends/cuda/runtime/platform/function_table.h"

namespace pteron::cuda {
namespace {

Result<std::unique_ptr<Cudnn>> open_cudnn() {
  // cuDNN opens nvrtc, and nvrtc its builtins, by names that the loader may not find unless they
  // are already open. Without them cuDNN has fewer kernels.
  for (const char* name : {"libnvrtc-builtins.so.13.0", "libnvrtc.so.13"}) {
    (void)DynamicLibrary::open(name).ok();
  }
  PTERON_ASSIGN_OR_RETURN(DynamicLibrary library, DynamicLibrary::open("libcudnn.so.9"));
  auto table = std::make_unique<Cudnn>();
#define PTERON_LOAD(name) PTERON_RETURN_IF_ERROR(load_function(library, #name, &table->name));
  PTERON_CUDNN_FUNCTIONS(PTERON_LOAD)
#undef PTERON_LOAD
  return table;
}

struct Opened {
  const Cudnn* table = nullptr;  // lives as long as the process
  std::string why_not;

  Opened() {
    // For testing the fallback on machines with cuDNN.
    const char* wanted = std::getenv("PTERON_CUDNN");
    if (wanted && std::strcmp(wanted, "off") == 0) {
      why_not = "PTERON_CUDNN=off";
      return;
    }
    Result<std::unique_ptr<Cudnn>> opened = open_cudnn();
    if (opened.ok()) {
      table = opened->release();
    } else {
      why_not = opened.error().message();
    }
  }
};

}  // namespace

Result<const Cudnn*> Cudnn::get() {
  // Searched only once: a program without it must not search the disk in every call.
  static const Opened* opened = new Opened();
  if (opened->table) return opened->table;
  return Error(Error::NotFound, opened->why_not);
}

}  // namespace pteron::cuda
