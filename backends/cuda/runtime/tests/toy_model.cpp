// A model's shared object written by hand for CUDA: what a compiler would make of y = x @ weight,
// with the same exports and imports. `x` and `weight` are float32 (64, 64) on one device.
#include "pteron/backends/aoti/runtime/container/tests/toy_model.h"

#include <cstdlib>

extern "C" {
int32_t aoti_torch_device_type_cuda();
int32_t aoti_torch_create_cuda_stream_guard(void*, int32_t, Handle*);
int32_t aoti_torch_delete_cuda_stream_guard(Handle);
int32_t aoti_torch_cuda_mm_out(Handle, Handle, Handle);
}

namespace toy {
namespace {

const int32_t kFloat = aoti_torch_dtype_float32();

}  // namespace

const char kConstantName[] = "weight";
const size_t kConstantNbytes = 64 * 64 * 4;

int32_t device_index(const std::string& device) {
  if (device.rfind("cuda:", 0) != 0) throw std::runtime_error("unknown device " + device);
  return std::atoi(device.c_str() + 5);
}

void run(const Model& model, Handle* inputs, Handle* outputs, void* stream) {
  const Handle x = inputs[0];
  inputs[0] = nullptr;  // taken
  Handle guard = nullptr, y = nullptr;
  check(aoti_torch_create_cuda_stream_guard(stream, model.device, &guard));
  const int64_t sizes[] = {64, 64}, strides[] = {64, 1};
  check(aoti_torch_empty_strided(2, sizes, strides, kFloat, aoti_torch_device_type_cuda(),
                                 model.device, &y));
  check(aoti_torch_cuda_mm_out(y, x, model.constant));
  check(aoti_torch_delete_tensor_object(x));
  check(aoti_torch_delete_cuda_stream_guard(guard));
  outputs[0] = y;
}

}  // namespace toy
