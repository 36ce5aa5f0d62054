// A model's shared object written by hand: what a compiler would make of y = 2 * x + bias, with the
// same exports and the same imports, and nothing of libtorch. `x` has 3 elements. With
// TOY_NEEDS_MISSING it also imports a shim that nobody has.
//
// A first element of 13 makes the run fail, as generated code fails: by an exception inside.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct Opaque;
using Handle = Opaque*;

extern "C" {
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_empty_strided(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t,
                                 Handle*);
int32_t aoti_torch_get_data_ptr(Handle, void**);
int32_t aoti_torch_get_numel(Handle, int64_t*);
int32_t aoti_torch_delete_tensor_object(Handle);
int32_t aoti_torch_new_tensor_handle(Handle, Handle*);
#ifdef TOY_NEEDS_MISSING
int32_t aoti_torch_cpu_no_such_operator(Handle);
int32_t aoti_torch_cpu_nor_this_one(Handle);
#endif
}

namespace {

// As generated code does: a shim is called while the shared object is being opened.
const int32_t kFloat = aoti_torch_dtype_float32();

struct Pair {
  const char* name;
  Handle handle;
};

struct Model {
  Handle bias = nullptr;
};

std::string& last_error() {
  static std::string message;
  return message;
}

void check(int32_t status) {
  if (status != 0) throw std::runtime_error("a shim failed");
}

float* data_of(Handle handle) {
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(handle, &data));
  return static_cast<float*>(data);
}

void run(Model* model, Handle* inputs, Handle* outputs) {
  const Handle x = inputs[0];
  inputs[0] = nullptr;  // taken
  int64_t numel = 0;
  check(aoti_torch_get_numel(x, &numel));
  if (numel > 0 && data_of(x)[0] == 13) {
    aoti_torch_delete_tensor_object(x);
    throw std::runtime_error("thirteen is not allowed");
  }
  const int64_t stride = 1;
  Handle y = nullptr;
  check(aoti_torch_empty_strided(1, &numel, &stride, kFloat, aoti_torch_device_type_cpu(), -1, &y));
  const float* bias = model->bias ? data_of(model->bias) : nullptr;
  for (int64_t i = 0; i < numel; ++i) data_of(y)[i] = 2 * data_of(x)[i] + (bias ? bias[i] : 0);
  aoti_torch_delete_tensor_object(x);
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
    if (std::string(device) != "cpu") throw std::runtime_error("unknown device");
    *container = new Model;
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
  return *name = "bias", 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantFromFolded(void*, size_t, bool* folded) {
  return *folded = false, 0;
}
EXPORT int32_t AOTInductorModelContainerGetConstantDataSize(void*, size_t, size_t* nbytes) {
  return *nbytes = 12, 0;
}
// A shallow handle that is kept and never deleted, as real containers do.
EXPORT int32_t AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(void* container,
                                                                             const Pair* pairs,
                                                                             size_t count, bool,
                                                                             bool) {
  return guarded([&] {
    for (size_t i = 0; i < count; ++i) {
      check(aoti_torch_new_tensor_handle(pairs[i].handle, &static_cast<Model*>(container)->bias));
    }
  });
}
EXPORT int32_t AOTInductorModelUpdateConstantsFromBlob(void*, const uint8_t*) { return 0; }
EXPORT int32_t AOTInductorModelContainerRunSingleThreaded(void* container, Handle* inputs, size_t,
                                                          Handle* outputs, size_t, void*, void*) {
  return guarded([&] { run(static_cast<Model*>(container), inputs, outputs); });
}
EXPORT int32_t AOTInductorGetLastError(const char** message) {
  return *message = last_error().c_str(), 0;
}
#ifdef TOY_NEEDS_MISSING
EXPORT int32_t toy_calls_missing(Handle handle) {
  return aoti_torch_cpu_no_such_operator(handle) + aoti_torch_cpu_nor_this_one(handle);
}
#endif
