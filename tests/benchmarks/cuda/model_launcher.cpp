// Runs a method of a program from C++, for a benchmark that times it from Python beside torch.
//
//   void* model = model_open("model.pte", "aoti_cuda_blob.ptd", "forward", /*recorded=*/0);
//   model_set_input(model, 0, data, /*bfloat16*/ 15, 2, sizes);     // on CUDA device 0, borrowed
//   model_set_output(model, 0, out, nbytes);
//   int64_t ns = model_run(model, stream, 100);                     // host time of 100 executions
//
// Functions return a negative number (or null) on failure and print why.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"

namespace {

using pteron::Device;
using pteron::DeviceType;
using pteron::Error;
using pteron::EValue;
using pteron::LoadMethodOptions;
using pteron::LoadOptions;
using pteron::Method;
using pteron::Program;
using pteron::Result;
using pteron::ScalarType;
using pteron::Span;
using pteron::Tensor;

struct Model {
  std::shared_ptr<const Program> program;
  LoadMethodOptions options;
  std::unique_ptr<Method> method;
};

int fail(const Error& error) {
  std::fprintf(stderr, "model_launcher: %s\n", error.message().c_str());
  return -1;
}

}  // namespace

extern "C" {

// `recorded`: with the option record_products.
void* model_open(const char* program, const char* data, const char* method, int recorded) {
  auto model = std::make_unique<Model>();
  LoadOptions options;
  if (data && *data) options.data_paths.emplace_back(data);
  auto loaded = Program::load(std::string(program), options);
  if (!loaded.ok()) return fail(loaded.error()), nullptr;
  model->program = std::move(*loaded);
  model->options.backend_options["CudaBackend"] = {{"record_products", recorded != 0}};
  auto made = model->program->load_method(method, model->options);
  if (!made.ok()) return fail(made.error()), nullptr;
  model->method = std::move(*made);
  return model.release();
}

// Another method of the same program: weights and code are shared, memory is not.
void* model_open_again(const void* model, const char* method) {
  auto again = std::make_unique<Model>();
  again->program = static_cast<const Model*>(model)->program;
  again->options = static_cast<const Model*>(model)->options;
  auto made = again->program->load_method(method, again->options);
  if (!made.ok()) return fail(made.error()), nullptr;
  again->method = std::move(*made);
  return again.release();
}

int model_set_input(void* model, int index, void* data, int dtype, int dims, const int64_t* sizes) {
  const Device device{DeviceType::CUDA, 0};
  Result<Tensor> tensor =
      Tensor::make(static_cast<ScalarType>(dtype),
                   Span<const int64_t>(sizes, static_cast<size_t>(dims)), data, device);
  if (!tensor.ok()) return fail(tensor.error());
  Error error =
      static_cast<Model*>(model)->method->set_input(static_cast<size_t>(index), EValue(*tensor));
  return error.ok() ? 0 : fail(error);
}

// An output that has memory of its own (a planned one) keeps it.
int model_set_output(void* model, int index, void* data, int64_t nbytes) {
  Error error = static_cast<Model*>(model)->method->set_output_data(
      static_cast<size_t>(index), data, static_cast<size_t>(nbytes));
  return error.ok() || error == Error::InvalidState ? 0 : fail(error);
}

// For the inputs that are set. No other thread may wait for the device.
int model_prepare(void* model) {
  Error error = static_cast<Model*>(model)->method->prepare();
  return error.ok() ? 0 : fail(error);
}

// Copies what the last run computed to device memory at `target`, after all work is done.
int model_copy_output(void* model, int index, void* target) {
  const Tensor& tensor =
      static_cast<Model*>(model)->method->get_output(static_cast<size_t>(index)).tensor();
  if (cudaDeviceSynchronize() != cudaSuccess) return -1;
  return cudaMemcpy(target, tensor.data(), tensor.nbytes(), cudaMemcpyDefault) == cudaSuccess ? 0
                                                                                              : -1;
}

// With a stream, the work goes to it; without, to the method's own.
int64_t model_run(void* model, void* stream, int count) {
  Method& method = *static_cast<Model*>(model)->method;
  auto guard = pteron::slim::CudaStreamGuard::make(static_cast<cudaStream_t>(stream), 0);
  if (!guard.ok()) return fail(guard.error());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    if (Error error = method.execute(); !error.ok()) return fail(error);
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                              start)
      .count();
}

}  // extern "C"
