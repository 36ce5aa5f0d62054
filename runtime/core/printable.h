// Text from a file, made safe to show: a terminal takes some bytes as commands.
//
//   puts(printable("name\x1b[2J").c_str());   // name\x1b[2J, as it stands here
//
// Control characters, marks that turn the direction of text, and bytes that are no UTF-8 are written
// as \xNN; all else stays.
#pragma once

#include <string>
#include <string_view>

namespace pteron {

enum class Newlines { Escape, Keep };

std::string printable(std::string_view text, Newlines newlines = Newlines::Escape);

}  // namespace pteron
