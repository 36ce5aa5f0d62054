// Texts to tokens and back. //extension/llm/tokenizer:hf_tokenizer has one for programs of
// `pteron export-lm` and `pteron export-asr`; others may bring their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/runtime/core/result.h"

namespace pteron {

class Module;

namespace llm {

// Text of tokens, one after another.
class DecodeStream {
 public:
  virtual ~DecodeStream() = default;

  // The text that `token` completes; may be empty.
  virtual Result<std::string> step(int64_t token) = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The tokens of `text`, with `bos` tokens of beginning before it and `eos` of end after it.
  virtual Result<std::vector<int64_t>> encode(std::string_view text, int8_t bos,
                                              int8_t eos) const = 0;
  // The bytes that `token` adds after `previous`; they may be part of a character.
  virtual Result<std::string> decode(int64_t previous, int64_t token) const = 0;

  // The text of tokens that follow `ids`; by default what decode() returns. Borrows the tokenizer.
  virtual std::unique_ptr<DecodeStream> decode_stream(std::vector<int64_t> ids) const;

  // Called by a runner's load(), for tokenizers that read a constant method of the program; by
  // default does nothing.
  virtual Error load_of_program(Module* module);
};

}  // namespace llm
}  // namespace pteron
