// Goes on with a text, one token after another, by a program of two methods that share a KV cache.
//
//   tools/bazel run //examples/decoder -- "Once there"
#include <cstdio>
#include <string>
#include <vector>

#include "pteron/runtime/module.h"

using namespace pteron;

namespace {

Error generate(const char* path, const std::string& prompt) {
  Module gpt(path);
  std::printf("%s", prompt.c_str());
  const auto length = static_cast<int64_t>(prompt.size());
  std::vector<int64_t> bytes(prompt.begin(), prompt.end());
  PTERON_ASSIGN_OR_RETURN(const TensorPtr ids, make_tensor_ptr({1, length}, std::move(bytes)));
  PTERON_ASSIGN_OR_RETURN(Module::Outputs outputs, gpt.execute("prefill", ids));
  for (int64_t i = length; i < 250; ++i) {
    PTERON_ASSIGN_OR_RETURN(const Tensor next, outputs.tensor("token"));
    PTERON_ASSIGN_OR_RETURN(const auto byte, to_vector<int64_t>(next));
    if (byte[0] == '\n') break;
    std::printf("%c", static_cast<char>(byte[0]));
    PTERON_ASSIGN_OR_RETURN(const TensorPtr token, make_tensor_ptr({1, 1}, byte));
    PTERON_ASSIGN_OR_RETURN(const TensorPtr position, make_tensor_ptr(std::vector<int64_t>{i}));
    PTERON_ASSIGN_OR_RETURN(outputs,
                            gpt.execute("decode", {{"token", token}, {"position", position}}));
  }
  std::printf("\n");
  return Error::Ok;
}

}  // namespace

int main(int argc, char** argv) {
  const Error error = generate(argv[1], argc > 2 ? argv[2] : "Once there");
  if (!error.ok()) std::fprintf(stderr, "%s\n", error.message().c_str());
  return error.ok() ? 0 : 1;
}
