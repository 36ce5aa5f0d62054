// Generates text with a program of `pteron export-lm`.
//
//   #include "pteron/extension/llm/runner/text_llm_runner.h"
//   #include "pteron/extension/llm/tokenizer/hf_tokenizer.h"
//
//   Error answer() {
//     llm::TextLLMRunner runner("model.pte", std::make_unique<llm::HFTokenizer>());
//     llm::GenerationConfig config;
//     config.max_new_tokens = 50;
//     config.num_bos = -1;  // what prompts of this model begin with
//     return runner.generate("Once upon a time", config,
//                            [](const std::string& piece) { std::fputs(piece.c_str(), stdout); });
//   }
//
// The tokenizer is the program's (//extension/llm/tokenizer:hf_tokenizer) or one of the caller.
// Without one, generate_tokens() takes ids and returns ids. Link the backends that the program uses.
// Not thread-safe, except stop(): one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pteron/extension/llm/runner/tokenizer.h"
#include "pteron/runtime/module.h"

namespace pteron::llm {

// How tokens are chosen, and how many. Names and defaults are ExecuTorch's where it has them.
struct GenerationConfig {
  bool echo = true;             // whether generate() passes the prompt to the callback, too
  bool ignore_eos = false;      // go on after a token that ends the text
  int32_t max_new_tokens = -1;  // -1: as many as seq_len allows
  int32_t seq_len = -1;         // the most tokens of prompt and answer; -1: get_max_context_len
  int8_t num_bos = 0;           // tokens of beginning and end that generate() adds to the prompt;
                                // -1: those that an HFTokenizer adds in Python, too
  int8_t num_eos = 0;
  float temperature = 0.8f;         // 0 takes the likeliest token
  int64_t top_k = 0;                // 0: all
  float top_p = 1.0f;               // over 0, at most 1
  float min_p = 0.0f;               // 0 to 1, relative to the likeliest token
  float repetition_penalty = 1.0f;  // 1e-6 to 1e6
  int64_t seed = 0;

  // How many tokens may follow a prompt; 0 or more.
  int32_t resolve_max_new_tokens(int32_t max_context_len, int32_t num_prompt_tokens) const;
};

class TextLLMRunner final {
 public:
  // Does not open the file; load() and the first use do.
  explicit TextLLMRunner(std::string path, std::unique_ptr<Tokenizer> tokenizer = nullptr,
                         Module::Options options = {});

  bool is_loaded() const { return is_loaded_; }
  // Errors as of Module; InvalidProgram: the program is no language model. InvalidArgument: the
  // tokenizer cannot read the program's.
  Error load();

  // Passes each token of the answer to `on_token`, without those that end it. InvalidArgument: the
  // prompt is empty or too long, or a setting is out of range; nothing has run.
  Error generate_tokens(const std::vector<int64_t>& prompt, const GenerationConfig& config,
                        const std::function<void(int64_t)>& on_token);
  // The same with texts. InvalidState: there is no tokenizer.
  Error generate(const std::string& prompt, const GenerationConfig& config,
                 const std::function<void(const std::string&)>& token_callback);

  // Ends a running generate() after its current token, without an error. From any thread.
  void stop() { is_stopped_ = true; }

 private:
  Result<int64_t> constant(const char* method);
  Error prefill(const std::vector<int64_t>& prompt);

  Module module_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<int64_t> eos_;
  int64_t chunk_ = 0;   // the most tokens of one call of prefill
  int64_t length_ = 0;  // of the cache
  int64_t vocabulary_ = 0;
  bool is_loaded_ = false;
  std::atomic<bool> is_stopped_{false};
};

}  // namespace pteron::llm
