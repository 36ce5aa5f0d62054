// What a tokenizer.json does with a text before its model, and with tokens to get a text.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pteron/runtime/core/error.h"

namespace pteron::llm {

// A part of the text, valid UTF-8 that is not empty, or a token.
struct Piece {
  static constexpr int64_t kText = -1;

  std::string text;
  int64_t token = kText;
  bool is_first = false;  // begins with the text's first character
};

// All are immutable, so that threads may share them.
using Normalizer = std::function<Error(Piece*)>;
// Replaces a text by its parts.
using PreTokenizer = std::function<Error(Piece, std::vector<Piece>*)>;
// Changes names of tokens until their concatenation is the text. With `is_raw`, bytes of incomplete
// characters are kept, and not replaced by U+FFFD.
using Decoder = std::function<Error(std::vector<std::string>*, bool is_raw)>;

// Throw Refusal or nlohmann::json::exception; null is no step.
Normalizer read_normalizer(const nlohmann::json& json, int depth = 0);
PreTokenizer read_pre_tokenizer(const nlohmann::json& json, int depth = 0);
Decoder read_decoder(const nlohmann::json& json, int depth = 0);

}  // namespace pteron::llm
