// Runs the method "forward" of a program on ones, in float32 and int64 tensors, and prints the
// first output.
//
//   tools/bazel run //examples/cpp:run_model -- $PWD/model.pte
//
// With the SDK, without Bazel: CMakeLists.txt, or
//
//   g++ -std=c++17 run_model.cpp $(pkg-config --cflags --libs pteron)
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "pteron/runtime/module.h"

using namespace pteron;

Result<TensorPtr> ones(const ValueMeta& input) {
  const bool is_float = input.dtype == ScalarType::Float;
  PTERON_CHECK_OR_RETURN(
      input.kind == ValueKind::Tensor && (is_float || input.dtype == ScalarType::Long),
      Error::InvalidType, "input %s is %s; this example passes tensors of float32 and int64",
      input.name.c_str(), input.describe().c_str());
  if (is_float) {
    return make_tensor_ptr(input.sizes, std::vector<float>(input.nbytes / sizeof(float), 1.0f));
  }
  return make_tensor_ptr(input.sizes, std::vector<int64_t>(input.nbytes / sizeof(int64_t), 1));
}

Error run_model(const char* path) {
  Module module(path);
  PTERON_ASSIGN_OR_RETURN(const MethodMeta meta, module.method_meta("forward"));
  std::vector<TensorPtr> inputs;
  for (const ValueMeta& input : meta.inputs) {
    PTERON_ASSIGN_OR_RETURN(TensorPtr tensor, ones(input));
    PTERON_RETURN_IF_ERROR(module.set_input(*tensor, inputs.size()));
    inputs.push_back(std::move(tensor));
  }
  PTERON_ASSIGN_OR_RETURN(const Module::Outputs outputs, module.forward());
  PTERON_ASSIGN_OR_RETURN(const Tensor y, outputs.tensor());
  PTERON_ASSIGN_OR_RETURN(const std::vector<float> elements, to_vector<float>(y));
  std::printf("%s:", y.describe().c_str());
  for (const float element : elements) std::printf(" %g", element);
  std::printf("\n");
  return Error::Ok;
}

int main(int argc, char** argv) {
  const Error error = run_model(argc > 1 ? argv[1] : "model.pte");
  if (!error.ok()) std::fprintf(stderr, "%s\n", error.message().c_str());
  return error.ok() ? 0 : 1;
}
