// Escapes text from a file for display: a terminal interprets some bytes as commands.
//
//   puts(printable("name\x1b[2J").c_str());   // name\x1b[2J, as it stands here
//
// Control characters, bidirectional marks, and invalid UTF-8 are written as \xNN; everything else
// is unchanged.
#pragma once

#include <string>
#include <string_view>

namespace pteron {

enum class Newlines { Escape, Keep };

std::string printable(std::string_view text, Newlines newlines = Newlines::Escape);

}  // namespace pteron
