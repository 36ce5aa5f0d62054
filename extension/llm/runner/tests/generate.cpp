// generate MODEL TEMPERATURE SEED ID...: the ids that follow, or the error.
// generate MODEL TEXT: text and answer; bytes but for ASCII's visible characters are '?'.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "pteron/extension/llm/runner/text_llm_runner.h"

using namespace pteron;

namespace {

class Characters final : public llm::Tokenizer {
 public:
  Result<std::vector<int64_t>> encode(std::string_view text, int8_t, int8_t) const override {
    std::vector<int64_t> ids;
    for (const char c : text) ids.push_back(2 + c - '!');
    return ids;
  }
  Result<std::string> decode(int64_t, int64_t token) const override {
    if (token < 2) return make_error(Error::InvalidArgument, "no character");
    return std::string(1, token - 2 <= '~' - '!' ? static_cast<char>(token - 2 + '!') : '?');
  }
};

Error run(int argc, char** argv) {
  llm::GenerationConfig config;
  config.max_new_tokens = 30;
  if (argc == 3) {
    config.temperature = 0;
    llm::TextLLMRunner runner(argv[1], std::make_unique<Characters>());
    return runner.generate(argv[2], config,
                           [](const std::string& piece) { std::printf("%s", piece.c_str()); });
  }
  llm::TextLLMRunner runner(argv[1]);
  PTERON_CHECK_OR_RETURN(
      runner.generate("x", config, [](const std::string&) {}) == Error::InvalidState,
      Error::Internal, "a text without a tokenizer");
  config.temperature = std::strtof(argv[2], nullptr);
  config.seed = std::atoi(argv[3]);
  std::vector<int64_t> prompt;
  for (int i = 4; i < argc; ++i) prompt.push_back(std::atoi(argv[i]));
  int left = 40;
  config.max_new_tokens = -1;
  return runner.generate_tokens(prompt, config, [&](int64_t token) {
    std::printf("%d ", static_cast<int>(token));
    if (--left == 0) runner.stop();
  });
}

}  // namespace

int main(int argc, char** argv) {
  const Error error = run(argc, argv);
  if (!error.ok()) std::fprintf(stderr, "%s\n", error.message().c_str());
  return error.ok() ? 0 : 1;
}
