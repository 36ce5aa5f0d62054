// Runs a program of a file; also prints what a header of this workspace says.

#include <cstdint>
#include <cstdio>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "runtime/core/error.h"

namespace {

pteron::Error run(const char* path) {
  PTERON_ASSIGN_OR_RETURN(const auto program, pteron::Program::load(path));
  PTERON_ASSIGN_OR_RETURN(const auto method, program->load_method("forward"));
  const int64_t sizes[] = {2};
  float x[] = {1, 2};
  PTERON_ASSIGN_OR_RETURN(auto input, pteron::Tensor::make(pteron::ScalarType::Float, sizes, x));
  PTERON_RETURN_IF_ERROR(method->set_input(0, pteron::EValue(input)));
  PTERON_RETURN_IF_ERROR(method->set_input(1, pteron::EValue(input)));
  PTERON_RETURN_IF_ERROR(method->execute());
  const float* y = method->get_output(0).tensor().data_as<float>();
  std::printf("%g %g\n", y[0], y[1]);
  return pteron::Error::Ok;
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("%s\n", runtime::kError);
  const pteron::Error error = run(argc > 1 ? argv[1] : "x.pte");
  if (error.ok()) return 0;
  std::printf("%s: %s\n", pteron::Error::name(error.code()), error.message().c_str());
  return 1;
}
