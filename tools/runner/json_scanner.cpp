#include "pteron/tools/runner/json_scanner.h"

namespace pteron::runner {
namespace {

void append_utf8(uint32_t point, std::string& out) {
  if (point < 0x80) {
    out += static_cast<char>(point);
    return;
  }
  const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  static constexpr uint32_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[more] | (point >> (6 * more)));
  for (int i = more; i-- > 0;) out += static_cast<char>(0x80 | ((point >> (6 * i)) & 0x3f));
}

}  // namespace

bool JsonScanner::finished() {
  skip_space();
  if (ok() && position_ != text_.size()) fail("the end");
  return ok();
}

void JsonScanner::skip_space() {
  while (position_ < text_.size() &&
         std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
    ++position_;
  }
}

bool JsonScanner::take(char character) {
  skip_space();
  if (!ok() || position_ >= text_.size() || text_[position_] != character) return false;
  ++position_;
  return true;
}

void JsonScanner::expect(char character) {
  if (!take(character)) fail(std::string("'") + character + "'");
}

void JsonScanner::fail(const std::string& expected) {
  if (ok()) problem_ = "expected " + expected + " at byte " + std::to_string(position_);
}

bool JsonScanner::Items::next() {
  const bool ended = scanner_.take(close_);
  if (!scanner_.ok() || ended) return false;
  if (!first_) {
    scanner_.expect(',');
    scanner_.skip_space();
  }
  first_ = false;
  return scanner_.ok();
}

int64_t JsonScanner::integer() {
  skip_space();
  const size_t start = position_;
  int64_t value = 0;
  bool overflow = false;
  while (ok() && position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
    overflow |= __builtin_mul_overflow(value, 10, &value);
    overflow |= __builtin_add_overflow(value, text_[position_++] - '0', &value);
  }
  const size_t digits = position_ - start;
  if (digits == 0 || overflow || (digits > 1 && text_[start] == '0')) {
    fail("an integer from 0 to 2^63 - 1");
    return 0;
  }
  return value;
}

uint32_t JsonScanner::hex4() {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = position_ < text_.size() ? text_[position_] : '\0';
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) {
      fail("four hexadecimal digits");
      return 0;
    }
    value = value * 16 + static_cast<uint32_t>(digit);
    ++position_;
  }
  return value;
}

void JsonScanner::append_escape(std::string& out) {
  static constexpr std::string_view kNames = "\"\\/bfnrt";
  static constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
  const char c = position_ < text_.size() ? text_[position_] : '\0';
  if (const size_t found = kNames.find(c); c != '\0' && found != std::string_view::npos) {
    ++position_;
    out += kValues[found];
    return;
  }
  if (c != 'u') return fail("an escape");
  ++position_;
  uint32_t point = hex4();
  if (point >= 0xd800 && point < 0xdc00) {
    if (text_.substr(position_, 2) != "\\u") return fail("the second half of a surrogate pair");
    position_ += 2;
    const uint32_t low = hex4();
    if (low < 0xdc00 || low >= 0xe000) return fail("the second half of a surrogate pair");
    point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
  } else if (point >= 0xdc00 && point < 0xe000) {
    return fail("the first half of a surrogate pair");
  }
  append_utf8(point, out);
}

std::string JsonScanner::string() {
  std::string out;
  expect('"');
  while (ok()) {
    if (position_ >= text_.size() || static_cast<unsigned char>(text_[position_]) < 0x20) {
      fail("the end of a string");
      break;
    }
    const char c = text_[position_++];
    if (c == '"') return out;
    if (c == '\\') {
      append_escape(out);
    } else {
      out += c;
    }
  }
  return {};
}

}  // namespace pteron::runner
