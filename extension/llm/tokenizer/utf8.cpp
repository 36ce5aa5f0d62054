#include "pteron/extension/llm/tokenizer/utf8.h"

namespace pteron::llm {
namespace {

// Unicode's White_Space.
bool is_space(uint32_t point) {
  return (9 <= point && point <= 13) || point == 0x20 || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (0x2000 <= point && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

}  // namespace

Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : 0;
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  if (lead < 0xC2 || lead > 0xF4) return {0xFFFD, 1, false};
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  // The second byte's range is without overlong forms, surrogates, and what is above U+10FFFF.
  uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  uint32_t point = lead & (0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if (byte(i) < low || byte(i) > high) return {0xFFFD, i, false};
    point = point << 6 | (byte(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {point, size, true};
}

void append(std::string* text, uint32_t point) {
  const auto add = [&](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xC0 | point >> 6);
  } else {
    if (point < 0x10000) {
      add(0xE0 | point >> 12);
    } else {
      add(0xF0 | point >> 18);
      add(0x80 | (point >> 12 & 0x3F));
    }
    add(0x80 | (point >> 6 & 0x3F));
  }
  add(0x80 | (point & 0x3F));
}

Error check_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    PTERON_CHECK_OR_RETURN(character.is_valid, Error::InvalidArgument,
                           "the text is not UTF-8 at byte %zu; expected UTF-8", at);
    at += character.size;
  }
  return Error::Ok;
}

std::string with_replacements(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const Character character = character_at(bytes, at);
    append(&text, character.point);
    at += character.size;
  }
  return text;
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (!is_space(character.point)) break;
    at += character.size;
  }
  return at;
}

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!is_space(character_at(text, begin).point)) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace pteron::llm
