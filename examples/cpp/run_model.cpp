// Runs the method "forward" of a program on one float input, filled with ones, and prints the
// output.
//
//   tools/bazel run //examples/cpp:run_model -- $PWD/model.pte
#include <cstdio>
#include <vector>

#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"

using namespace pteron;

Error run_model(const char* path) {
  PTERON_ASSIGN_OR_RETURN(const auto program, Program::load(path));
  PTERON_ASSIGN_OR_RETURN(const auto method, program->load_method("forward"));
  const ValueMeta& meta = method->meta().inputs.at(0);
  std::vector<float> x(meta.nbytes / sizeof(float), 1.0f);
  PTERON_ASSIGN_OR_RETURN(Tensor input, Tensor::make(ScalarType::Float, meta.sizes, x.data()));
  PTERON_RETURN_IF_ERROR(method->set_input(0, EValue(input)));
  PTERON_RETURN_IF_ERROR(method->execute());
  const Tensor& output = method->get_output(0).tensor();
  std::printf("%s:", output.describe().c_str());
  for (int64_t i = 0; i < output.numel(); ++i) std::printf(" %g", output.data_as<float>()[i]);
  std::printf("\n");
  return Error::Ok;
}

int main(int argc, char** argv) {
  const Error error = run_model(argc > 1 ? argv[1] : "model.pte");
  if (!error.ok()) std::fprintf(stderr, "%s\n", error.message().c_str());
  return error.ok() ? 0 : 1;
}
