#include "pteron/extension/llm/runner/tokenizer.h"

namespace pteron::llm {
namespace {

class Pieces final : public DecodeStream {
 public:
  Pieces(const Tokenizer& tokenizer, int64_t previous)
      : tokenizer_(tokenizer), previous_(previous) {}

  Result<std::string> step(int64_t token) override {
    const int64_t previous = previous_;
    previous_ = token;
    return tokenizer_.decode(previous, token);
  }

 private:
  const Tokenizer& tokenizer_;
  int64_t previous_;
};

}  // namespace

std::unique_ptr<DecodeStream> Tokenizer::decode_stream(std::vector<int64_t> ids) const {
  return std::make_unique<Pieces>(*this, ids.empty() ? 0 : ids.back());
}

Error Tokenizer::load_of_program(Module*) { return Error::Ok; }

}  // namespace pteron::llm
