// A tokenizer.json, a zero byte, and a text: whatever they are, the result is an error or tokens
// whose text is UTF-8.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "pteron/extension/llm/tokenizer/hf_tokenizer.h"
#include "pteron/extension/llm/tokenizer/utf8.h"

namespace pteron {
namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void run(std::string_view input) {
  const size_t end = input.find('\0');
  llm::HFTokenizer tokenizer;
  if (!tokenizer.load_json(input.substr(0, end)).ok()) return;
  const std::string_view text = end == input.npos ? "Größe  1\n" : input.substr(end + 1);
  const auto ids = tokenizer.encode(text, -1, -1);
  if (!ids.ok()) return;
  const auto decoded = tokenizer.decode(*ids);
  require(!decoded.ok() || llm::check_utf8(*decoded).ok(), "the text is not UTF-8");
  const auto stream = tokenizer.decode_stream({});
  for (size_t i = 0; i < ids->size() && i < 100; ++i) {
    const auto piece = stream->step((*ids)[i]);
    require(!piece.ok() || llm::check_utf8(*piece).ok(), "a piece is not UTF-8");
    if (i > 0) (void)tokenizer.decode((*ids)[i - 1], (*ids)[i]).ok();
  }
}

}  // namespace
}  // namespace pteron

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pteron::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
