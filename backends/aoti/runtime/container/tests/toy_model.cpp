// A model's shared object written by hand: what a compiler would make of y = 2 * x + bias, with the
// same exports and the same imports, and nothing of libtorch. `x` has 3 elements. With
// TOY_NEEDS_MISSING it also imports a shim that nobody has.
//
// A first element of 13 makes the run fail, as generated code fails: by an exception inside.
#include "pteron/backends/aoti/runtime/container/tests/toy_model.h"

extern "C" {
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_get_data_ptr(Handle, void**);
int32_t aoti_torch_get_numel(Handle, int64_t*);
#ifdef TOY_NEEDS_MISSING
int32_t aoti_torch_cpu_no_such_operator(Handle);
int32_t aoti_torch_cpu_nor_this_one(Handle);
#endif
}

namespace toy {
namespace {

// As generated code does: a shim is called while the shared object is being opened.
const int32_t kFloat = aoti_torch_dtype_float32();

float* data_of(Handle handle) {
  void* data = nullptr;
  check(aoti_torch_get_data_ptr(handle, &data));
  return static_cast<float*>(data);
}

}  // namespace

const char kConstantName[] = "bias";
const size_t kConstantNbytes = 12;

int32_t device_index(const std::string& device) {
  if (device != "cpu") throw std::runtime_error("unknown device");
  return -1;
}

void run(const Model& model, Handle* inputs, Handle* outputs, void*) {
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
  const float* bias = model.constant ? data_of(model.constant) : nullptr;
  for (int64_t i = 0; i < numel; ++i) data_of(y)[i] = 2 * data_of(x)[i] + (bias ? bias[i] : 0);
  aoti_torch_delete_tensor_object(x);
  outputs[0] = y;
}

}  // namespace toy

#ifdef TOY_NEEDS_MISSING
EXPORT int32_t toy_calls_missing(Handle handle) {
  return aoti_torch_cpu_no_such_operator(handle) + aoti_torch_cpu_nor_this_one(handle);
}
#endif
