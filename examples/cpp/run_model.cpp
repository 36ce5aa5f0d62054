// Runs the method "forward" of a program on one float input, filled with ones, and prints the
// output.
//
//   tools/bazel run //examples/cpp:run_model -- $PWD/model.pte
//
// With the SDK, without Bazel: CMakeLists.txt, or
//
//   g++ -std=c++17 run_model.cpp $(pkg-config --cflags --libs pteron)
#include <cstdio>
#include <vector>

#include "pteron/runtime/module.h"

using namespace pteron;

Error run_model(const char* path) {
  Module module(path);
  PTERON_ASSIGN_OR_RETURN(const MethodMeta meta, module.method_meta("forward"));
  PTERON_CHECK_OR_RETURN(meta.inputs.size() == 1, Error::InvalidArgument,
                         "forward has %zu inputs, and this example passes one", meta.inputs.size());
  const ValueMeta& input = meta.inputs[0];
  std::vector<float> ones(input.nbytes / sizeof(float), 1.0f);
  PTERON_ASSIGN_OR_RETURN(const TensorPtr x, make_tensor_ptr(input.sizes, std::move(ones)));
  PTERON_ASSIGN_OR_RETURN(const Module::Outputs outputs, module.forward(x));
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
