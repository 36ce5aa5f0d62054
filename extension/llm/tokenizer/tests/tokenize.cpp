// tokenize TOKENIZER_JSON: answers lines of JSON on stdin. A text becomes its ids, without and with
// the tokens of beginning and end; ids become texts, without and with special tokens, and the
// pieces of a stream that begins after the first `known` of them.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pteron/extension/llm/tokenizer/hf_tokenizer.h"

using namespace pteron;
using Json = nlohmann::json;

namespace {

Result<Json> encode(const llm::HFTokenizer& tokenizer, const std::string& text) {
  PTERON_ASSIGN_OR_RETURN(const auto ids, tokenizer.encode(text));
  PTERON_ASSIGN_OR_RETURN(const auto framed, tokenizer.encode(text, -1, -1));
  return Json{{"ids", ids}, {"framed", framed}};
}

Result<Json> decode(const llm::HFTokenizer& tokenizer, const std::vector<int64_t>& ids,
                    size_t known) {
  PTERON_ASSIGN_OR_RETURN(const std::string text, tokenizer.decode(ids));
  PTERON_ASSIGN_OR_RETURN(const std::string all, tokenizer.decode(ids, false));
  const auto begin = ids.begin() + static_cast<ptrdiff_t>(known);
  const auto stream = tokenizer.decode_stream({ids.begin(), begin});
  std::vector<std::string> pieces;
  for (auto id = begin; id != ids.end(); ++id) {
    PTERON_ASSIGN_OR_RETURN(std::string piece, stream->step(*id));
    pieces.push_back(std::move(piece));
  }
  return Json{{"text", text}, {"all", all}, {"pieces", pieces}};
}

Result<Json> answer(const llm::HFTokenizer& tokenizer, const Json& request) {
  if (request.contains("text")) return encode(tokenizer, request["text"].get<std::string>());
  return decode(tokenizer, request["ids"].get<std::vector<int64_t>>(),
                request["known"].get<size_t>());
}

}  // namespace

int main(int, char** argv) {
  llm::HFTokenizer tokenizer;
  if (const Error error = tokenizer.load(argv[1]); !error.ok()) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const Result<Json> found = answer(tokenizer, Json::parse(line));
    const Json json = found.ok() ? *found : Json{{"error", found.error().message()}};
    std::puts(json.dump().c_str());
  }
  return 0;
}
