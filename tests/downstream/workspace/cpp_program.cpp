// Runs the program of a file; also prints what a header of this workspace says.

#include <cstdio>

#include "pteron/runtime/module.h"
#include "runtime/core/error.h"

namespace {

pteron::Error run(const char* path) {
  pteron::Module module(path);
  PTERON_ASSIGN_OR_RETURN(auto x, pteron::make_tensor_ptr(std::vector<float>{1, 2}));
  PTERON_ASSIGN_OR_RETURN(auto outputs, module.forward({{"y", x}, {"x", x}}));
  PTERON_ASSIGN_OR_RETURN(auto y, outputs.tensor());
  std::printf("%g %g\n", y.data_as<float>()[0], y.data_as<float>()[1]);
  return pteron::Error::Ok;
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("%s\n", runtime::kError);
  const pteron::Error error = run(argc > 1 ? argv[1] : "sum.pte");
  if (error.ok()) return 0;
  std::printf("%s: %s\n", pteron::Error::name(error.code()), error.message().c_str());
  return 1;
}
