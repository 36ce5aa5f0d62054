// generate_text MODEL PROMPT: what a program of `pteron export-lm` writes after the prompt.
#include <cstdio>
#include <memory>
#include <string>

#include "pteron/extension/llm/runner/text_llm_runner.h"
#include "pteron/extension/llm/tokenizer/hf_tokenizer.h"

using namespace pteron;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s model.pte PROMPT\n", argv[0]);
    return 2;
  }
  llm::TextLLMRunner runner(argv[1], std::make_unique<llm::HFTokenizer>());
  llm::GenerationConfig config;
  config.temperature = 0;
  config.max_new_tokens = 200;
  config.num_bos = config.num_eos = -1;  // as in Python
  const Error error = runner.generate(argv[2], config, [](const std::string& piece) {
    std::fputs(piece.c_str(), stdout);
    std::fflush(stdout);
  });
  if (!error.ok()) std::fprintf(stderr, "%s\n", error.message().c_str());
  return error.ok() ? 0 : 1;
}
