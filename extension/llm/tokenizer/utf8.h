// Texts in UTF-8, as tokenizers read and write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pteron/runtime/core/error.h"

namespace pteron::llm {

struct Character {
  uint32_t point;  // U+FFFD if it is invalid
  size_t size;     // bytes, at least 1
  bool is_valid;
};

// The character that begins at byte `at`, or the longest part of one, which is invalid.
Character character_at(std::string_view text, size_t at);

void append(std::string* text, uint32_t point);

// InvalidArgument: the text is not UTF-8.
Error check_utf8(std::string_view text);

// With U+FFFD in place of each longest part that is invalid.
std::string with_replacements(std::string_view bytes);

// How many bytes at its beginning or end are white space. `text` is valid UTF-8.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);

}  // namespace pteron::llm
