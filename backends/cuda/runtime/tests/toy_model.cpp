// A model's shared object written by hand for CUDA: what a compiler would make of y = x @ weight,
// with the same exports and imports. `x` and `weight` are float32 (64, 64) on one device.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct Opaque;
using Handle = Opaque*;

extern "C" {
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_device_type_cuda();
int32_t aoti_torch_empty_strided(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t,
                                 Handle*);
int32_t aoti_torch_delete_tensor_object(Handle);
int32_t aoti_torch_new_tensor_handle(Handle, Handle*);
int32_t aoti_torch_create_cuda_stream_guard(void*, int32_t, Handle*);
int32_t aoti_torch_delete_cuda_stream_guard(Handle);
int32_t aoti_torch_cuda_mm_out(Handle, Handle, Handle);
}

namespace {

const int32_t kFloat = aoti_torch_dtype_float32();

struct Pair {
  const char* name;
  Handle handle;
};

struct Model {
  int32_t device = 0;
  Handle weight = nullptr;
};

std::string& last_error() {
  static thread_local std::string message;
  return message;
}

void check(int32_t status) {
  if (status != 0) throw std::runtime_error("a shim failed");
}

void run(Model* model, Handle* inputs, Handle* outputs, void* stream) {
  const Handle x = inputs[0];
  inputs[0] = nullptr;  // taken
  Handle guard = nullptr, y = nullptr;
  check(aoti_torch_create_cuda_stream_guard(stream, model->device, &guard));
  const int64_t sizes[] = {64, 64}, strides[] = {64, 1};
  check(aoti_torch_empty_strided(2, sizes, strides, kFloat, aoti_torch_device_type_cuda(),
                                 model->device, &y));
  check(aoti_torch_cuda_mm_out(y, x, model->weight));
  check(aoti_torch_delete_tensor_object(x));
  check(aoti_torch_delete_cuda_stream_guard(guard));
  outputs[0] = y;
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

}  // namespace

EXPORT int32_t AOTInductorModelContainerCreateWithDevice(void** container, size_t,
                                                         const char* device, const char*) {
  return guarded([&] {
    const std::string name = device;
    if (name.rfind("cuda:", 0) != 0) throw std::runtime_error("unknown device " + name);
    auto* model = new Model;
    model->device = std::atoi(name.c_str() + 5);
    *container = model;
  });
}
EXPORT int32_t AOTInductorModelContainerDelete(void* container) {
  delete static_cast<Model*>(container);
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
  return *name = "weight", 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantFromFolded(void*, size_t, bool* folded) {
  return *folded = false, 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantDataSize(void*, size_t, size_t* nbytes) {
  return *nbytes = 64 * 64 * 4, 0;
}
// A shallow handle that is kept and never deleted, as real containers do.
EXPORT int32_t AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(void* container,
                                                                             const Pair* pairs,
                                                                             size_t count, bool,
                                                                             bool) {
  return guarded([&] {
    for (size_t i = 0; i < count; ++i) {
      check(aoti_torch_new_tensor_handle(pairs[i].handle, &static_cast<Model*>(container)->weight));
    }
  });
}
EXPORT int32_t AOTInductorModelUpdateConstantsFromBlob(void*, const uint8_t*) { return 0; }
EXPORT int32_t AOTInductorModelContainerRunSingleThreaded(void* container, Handle* inputs, size_t,
                                                          Handle* outputs, size_t, void* stream,
                                                          void*) {
  return guarded([&] { run(static_cast<Model*>(container), inputs, outputs, stream); });
}
EXPORT int32_t AOTInductorGetLastError(const char** message) {
  return *message = last_error().c_str(), 0;
}
