// Unicode's normalization forms (UAX #15).
#pragma once

#include <string>
#include <string_view>

namespace pteron::llm {

enum class Form { kNfc, kNfd, kNfkc, kNfkd };

// `text` is UTF-8. Characters that are newer than Unicode 9 are left as they are, as the package
// tokenizers does.
std::string normalize(std::string_view text, Form form);

}  // namespace pteron::llm
