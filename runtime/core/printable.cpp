#include "pteron/runtime/core/printable.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace pteron {
namespace {

// Length of the UTF-8 character at the start of `text`; 0 if it must be escaped.
size_t shown_nbytes(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0u; };
  const auto follows = [&](size_t i, unsigned lowest, unsigned highest) {
    return at(i) >= lowest && at(i) <= highest;
  };
  const unsigned first = at(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f;
  // Excludes C1 controls (U+0080 to U+009F), overlong forms, surrogates, and code points beyond
  // Unicode.
  if (first < 0xe0) return first >= 0xc2 && follows(1, first == 0xc2 ? 0xa0 : 0x80, 0xbf) ? 2 : 0;
  if (first < 0xf0) {
    const bool valid = follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf) &&
                       follows(2, 0x80, 0xbf);
    const bool turns = first == 0xe2 && ((at(1) == 0x80 && follows(2, 0xa8, 0xae)) ||
                                         (at(1) == 0x81 && follows(2, 0xa6, 0xa9)));
    return valid && !turns ? 3 : 0;
  }
  return first <= 0xf4 && follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf) &&
                 follows(2, 0x80, 0xbf) && follows(3, 0x80, 0xbf)
             ? 4
             : 0;
}

}  // namespace

std::string printable(std::string_view text, Newlines newlines) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const bool kept = newlines == Newlines::Keep && text[0] == '\n';
    const size_t nbytes = kept ? 1 : shown_nbytes(text);
    if (nbytes > 0) {
      shown.append(text.substr(0, nbytes));
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<uint8_t>(text[0]));
      shown.append(escaped);
    }
    text.remove_prefix(nbytes > 0 ? nbytes : 1);
  }
  return shown;
}

}  // namespace pteron
