// transcribe MODEL LANGUAGE TASK TIMESTAMPS MAX: of float32 samples on stdin, each segment's start,
// end and ids in a line, or the error. LANGUAGE and TASK may be empty.
// transcribe MODEL [own]: the text, in English; bytes but for ASCII's small letters are '?', or with
// the program's own tokenizer.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pteron/extension/asr/runner/asr_runner.h"
#include "pteron/extension/llm/tokenizer/hf_tokenizer.h"

using namespace pteron;

namespace {

// Ids of tests/models/speech.py: those of visible ASCII characters are in order.
class Characters final : public llm::Tokenizer {
 public:
  Result<std::vector<int64_t>> encode(std::string_view, int8_t, int8_t) const override {
    return make_error(Error::NotSupported, "not used");
  }
  Result<std::string> decode(int64_t, int64_t token) const override {
    const auto character = static_cast<char>(token + '!');
    return std::string(1, 'a' <= character && character <= 'z' ? character : '?');
  }
};

Error run(int argc, char** argv) {
  std::vector<float> samples;
  float sample = 0;
  while (std::fread(&sample, sizeof(sample), 1, stdin) == 1) samples.push_back(sample);
  if (argc <= 3) {
    std::unique_ptr<llm::Tokenizer> tokenizer = std::make_unique<Characters>();
    if (argc == 3) tokenizer = std::make_unique<llm::HFTokenizer>();
    asr::AsrRunner runner(argv[1], std::move(tokenizer));
    asr::AsrTranscribeConfig config;
    config.language = "en";
    PTERON_ASSIGN_OR_RETURN(const std::string text, runner.transcribe(samples, config));
    std::printf("%s", text.c_str());
    return Error::Ok;
  }
  asr::AsrRunner runner(argv[1]);
  PTERON_CHECK_OR_RETURN(runner.transcribe(samples).error() == Error::InvalidState, Error::Internal,
                         "a text without a tokenizer");
  asr::AsrTranscribeConfig config;
  config.language = argv[2];
  config.task = argv[3];
  config.timestamps = std::atoi(argv[4]) != 0;
  config.max_new_tokens = std::atoi(argv[5]);
  return runner.transcribe_tokens(samples, config, [](const asr::Segment& segment) {
    std::printf("%.6f %.6f", segment.start, segment.end);
    for (const int64_t token : segment.tokens) std::printf(" %d", static_cast<int>(token));
    std::printf("\n");
  });
}

}  // namespace

int main(int argc, char** argv) {
  const Error error = run(argc, argv);
  if (!error.ok()) std::fprintf(stderr, "%s\n", error.message().c_str());
  return error.ok() ? 0 : 1;
}
