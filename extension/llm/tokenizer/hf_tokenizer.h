// Reads a tokenizer.json, as the package tokenizers and transformers write it.
//
//   #include "pteron/extension/llm/tokenizer/hf_tokenizer.h"
//
//   Error count() {
//     llm::HFTokenizer tokenizer;
//     PTERON_RETURN_IF_ERROR(tokenizer.load("tokenizer.json"));
//     PTERON_ASSIGN_OR_RETURN(const auto ids, tokenizer.encode("Once upon a time", -1, -1));
//     PTERON_ASSIGN_OR_RETURN(const std::string text, tokenizer.decode(ids));
//     std::printf("%zu tokens: %s\n", ids.size(), text.c_str());
//     return Error::Ok;
//   }
//
// A runner that is given one without a file loads the program's own:
//
//   llm::TextLLMRunner runner("model.pte", std::make_unique<llm::HFTokenizer>());
//
// Ids and texts are those of the package, or loading fails. Supported:
//   models: BPE (also with byte_fallback), Unigram, WordLevel
//   normalizers: NFC, NFD, NFKC, NFKD, Replace, Prepend, Strip, ByteLevel, Sequence
//   pre-tokenizers: ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit,
//     CharDelimiterSplit, Sequence
//   post-processors: TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing, Sequence
//   decoders: ByteLevel, ByteFallback, Replace, Fuse, Strip, Metaspace, Sequence
// Truncation and padding are not done. Immutable once loaded: then threads may share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/extension/llm/runner/tokenizer.h"
#include "pteron/runtime/core/result.h"

namespace pteron::llm {

class HFTokenizer final : public Tokenizer {
 public:
  HFTokenizer();
  ~HFTokenizer() override;

  // AccessFailed: the file cannot be read; else as load_json().
  Error load(const std::string& path);
  // InvalidArgument: lists what is wrong or not supported; what was loaded before stays.
  Error load_json(std::string_view text);
  bool is_loaded() const { return parts_ != nullptr; }

  // Tokens of beginning and end are those of the post-processor: its first one `bos` times, its
  // last one `eos` times, and all that it adds if negative. InvalidArgument: the text is not UTF-8,
  // or there is no such token. OutOfResources: patterns need more than 10 s of CPU time or 64 MiB.
  // InvalidState: not loaded.
  Result<std::vector<int64_t>> encode(std::string_view text, int8_t bos = 0,
                                      int8_t eos = 0) const override;

  // Special tokens and ids without a token are no text.
  Result<std::string> decode(int64_t previous, int64_t token) const override;
  // A whole text; U+FFFD is in place of bytes that are no characters.
  Result<std::string> decode(const std::vector<int64_t>& ids,
                             bool skip_special_tokens = true) const;
  // Holds incomplete characters back until a token completes them.
  std::unique_ptr<DecodeStream> decode_stream(std::vector<int64_t> ids) const override;

  // Loads what the constant method `tokenizer` returns, unless one is loaded.
  Error load_of_program(Module* module) override;

  size_t vocab_size() const;  // tokens that have an id
  std::optional<int64_t> token_to_id(const std::string& token) const;
  std::optional<std::string> id_to_token(int64_t id) const;

 private:
  struct Parts;

  Result<std::string> decode(const std::vector<int64_t>& ids, bool skips_special,
                             bool is_raw) const;

  std::unique_ptr<const Parts> parts_;
};

}  // namespace pteron::llm
