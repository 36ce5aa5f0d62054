// Transcribes speech with a program of `pteron export-asr`.
//
//   #include "pteron/extension/asr/runner/asr_runner.h"
//   #include "pteron/extension/llm/tokenizer/hf_tokenizer.h"
//
//   Error listen(const std::vector<float>& samples) {  // at 16 kHz, from -1 to 1
//     asr::AsrRunner runner("model.pte", std::make_unique<llm::HFTokenizer>());
//     asr::AsrTranscribeConfig config;
//     config.language = "en";
//     PTERON_ASSIGN_OR_RETURN(const std::string text, runner.transcribe(samples, config));
//     std::puts(text.c_str());
//     return Error::Ok;
//   }
//
// transcribe_tokens() needs no tokenizer and has the times of segments.
//
// Windows of 30 s follow each other as in pteron.asr.Transcriber (Python). Link the backends that
// the program uses. Not thread-safe, except stop(): one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "pteron/extension/llm/runner/tokenizer.h"
#include "pteron/runtime/module.h"

namespace pteron::asr {

// Names are ExecuTorch's where it has them. The start tokens and the choice of the likeliest token
// are of the program.
struct AsrTranscribeConfig {
  int64_t max_new_tokens = -1;                // of each window; -1: as many as the model has
  std::unordered_set<int64_t> eos_token_ids;  // empty: the program's
  std::string language;                       // as "en"; empty: what the model hears
  std::string task;                           // "transcribe" or "translate"; empty: the model's
  bool timestamps = false;                    // also if the audio fits into one window
};

// A part of the text: seconds from the audio's beginning, and tokens, timestamps among them.
struct Segment {
  double start = 0;
  double end = 0;
  std::vector<int64_t> tokens;
};

class AsrRunner final {
 public:
  // Does not open the file; load() and the first use do.
  explicit AsrRunner(std::string path, std::unique_ptr<llm::Tokenizer> tokenizer = nullptr,
                     Module::Options options = {});

  bool is_loaded() const { return is_loaded_; }
  // Errors as of Module; InvalidProgram: the program is not of speech. InvalidArgument: the
  // tokenizer cannot read the program's.
  Error load();

  // Samples a second that the model takes; after load().
  int64_t sampling_rate() const { return rate_; }

  // Passes each segment to `on_segment` as soon as it is known. InvalidArgument: the audio is empty
  // or not finite, or the model does not know the language or the task; nothing was passed.
  Error transcribe_tokens(const std::vector<float>& samples, const AsrTranscribeConfig& config,
                          const std::function<void(const Segment&)>& on_segment);
  // The text; each piece is passed to `token_callback`, too. InvalidState: there is no tokenizer.
  Result<std::string> transcribe(
      const std::vector<float>& samples, const AsrTranscribeConfig& config = {},
      const std::function<void(const std::string&)>& token_callback = nullptr);

  // Ends a running transcription after its current token, without an error. From any thread.
  void stop() { is_stopped_ = true; }

 private:
  struct Features;

  Result<int64_t> constant(const char* method);
  Result<std::vector<int64_t>> constants(const char* method);
  Result<int64_t> id_of(const char* method, const std::string& name);
  Result<Features> features(const std::vector<float>& samples);
  Error encode(const Features& features, int64_t seek, int64_t count);
  Result<std::vector<int64_t>> prompt(const AsrTranscribeConfig& config, bool timestamps);
  Result<int64_t> decode(const std::vector<int64_t>& tokens, int64_t position, int64_t begin,
                         int64_t rules);
  Result<std::vector<int64_t>> text(const std::vector<int64_t>& prompt,
                                    const AsrTranscribeConfig& config, bool timestamps);

  Module module_;
  std::unique_ptr<llm::Tokenizer> tokenizer_;
  std::vector<int64_t> eos_;
  std::vector<int64_t> prompt_;  // -1 for the language
  int64_t rate_ = 0;
  int64_t fft_ = 0;         // samples of a frame
  int64_t hop_ = 0;         // samples from frame to frame
  int64_t frames_ = 0;      // of a window
  int64_t length_ = 0;      // the most tokens of a window, with the prompt
  int64_t first_time_ = 0;  // the token of the timestamp 0
  bool has_times_ = false;
  bool is_loaded_ = false;
  std::atomic<bool> is_stopped_{false};
};

}  // namespace pteron::asr
