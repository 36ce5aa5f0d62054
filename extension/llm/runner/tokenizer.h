// Texts to tokens and back. A program of `pteron export-lm` has the text of its tokenizer.json as
// the constant method `tokenizer`; no library that reads it is among this repository's modules, so
// that the caller brings one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/runtime/core/result.h"

namespace pteron::llm {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The tokens of `text`, with `bos` tokens of beginning before it and `eos` of end after it.
  virtual Result<std::vector<int64_t>> encode(std::string_view text, int8_t bos,
                                              int8_t eos) const = 0;
  // The bytes that `token` adds after `previous`; they may be part of a character.
  virtual Result<std::string> decode(int64_t previous, int64_t token) const = 0;
};

}  // namespace pteron::llm
