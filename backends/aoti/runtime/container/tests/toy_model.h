// What hand-written shared objects of models have in common: the exports of a compiled model with one
// input, one output and one constant. For one source each, which defines what `toy` declares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct Opaque;
using Handle = Opaque*;

extern "C" {
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_empty_strided(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t,
                                 Handle*);
int32_t aoti_torch_delete_tensor_object(Handle);
int32_t aoti_torch_new_tensor_handle(Handle, Handle*);
}

namespace toy {

struct Pair {
  const char* name;
  Handle handle;
};

struct Model {
  int32_t device = -1;
  Handle constant = nullptr;
};

extern const char kConstantName[];
extern const size_t kConstantNbytes;
// Its index; throws if there is none of that name.
int32_t device_index(const std::string& device);
void run(const Model& model, Handle* inputs, Handle* outputs, void* stream);

inline std::string& last_error() {
  static std::string message;
  return message;
}

inline void check(int32_t status) {
  if (status != 0) throw std::runtime_error("a shim failed");
}

// Runs body() and turns an exception into a status.
template <typename Body>
int32_t guarded(const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return 1;
  }
}

}  // namespace toy

EXPORT int32_t AOTInductorModelContainerCreateWithDevice(void** container, size_t,
                                                         const char* device, const char*) {
  return toy::guarded([&] { *container = new toy::Model{toy::device_index(device)}; });
}
EXPORT int32_t AOTInductorModelContainerDelete(void* container) {
  delete static_cast<toy::Model*>(container);
  return 0;
}
EXPORT int32_t AOTInductorModelContainerGetNumInputs(void*, size_t* count) { return *count = 1, 0; }
EXPORT int32_t AOTInductorModelContainerGetNumOutputs(void*, size_t* count) {
  return *count = 1, 0;
}
EXPORT int32_t AOTInductorModelContainerGetNumConstants(void*, size_t* count) {
  return *count = 1, 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantName(void*, size_t, const char** name) {
  return *name = toy::kConstantName, 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantFromFolded(void*, size_t, bool* folded) {
  return *folded = false, 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantDataSize(void*, size_t, size_t* nbytes) {
  return *nbytes = toy::kConstantNbytes, 0;
}
// A shallow handle that is kept and never deleted, as real containers do.
EXPORT int32_t AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(void* container,
                                                                             const toy::Pair* pairs,
                                                                             size_t count, bool,
                                                                             bool) {
  return toy::guarded([&] {
    for (size_t i = 0; i < count; ++i) {
      toy::check(aoti_torch_new_tensor_handle(pairs[i].handle,
                                              &static_cast<toy::Model*>(container)->constant));
    }
  });
}
EXPORT int32_t AOTInductorModelUpdateConstantsFromBlob(void*, const uint8_t*) { return 0; }
EXPORT int32_t AOTInductorModelContainerRunSingleThreaded(void* container, Handle* inputs, size_t,
                                                          Handle* outputs, size_t, void* stream,
                                                          void*) {
  return toy::guarded(
      [&] { toy::run(*static_cast<toy::Model*>(container), inputs, outputs, stream); });
}
EXPORT int32_t AOTInductorGetLastError(const char** message) {
  return *message = toy::last_error().c_str(), 0;
}
