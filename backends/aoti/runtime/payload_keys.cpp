#include "pteron/backends/aoti/runtime/payload_keys.h"

#include <string_view>

namespace pteron::aoti {

Result<std::vector<PayloadKeys>> PayloadKeys::parse(Span<const uint8_t> processed) {
  std::string_view rest(reinterpret_cast<const char*>(processed.data()), processed.size());
  std::vector<std::string> lines;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  PTERON_CHECK_OR_RETURN(lines.size() >= 2 && lines.size() % 2 == 0, Error::InvalidProgram,
                         "the delegate's %zu processed bytes are %zu lines, not two for each "
                         "variant of its code, the keys of code and weights",
                         processed.size(), lines.size());
  std::vector<PayloadKeys> variants;
  for (size_t i = 0; i < lines.size(); i += 2) {
    PTERON_CHECK_OR_RETURN(!lines[i].empty(), Error::InvalidProgram,
                           "line %zu of the delegate's processed bytes is empty, not the key of "
                           "its code",
                           i);
    variants.push_back({std::move(lines[i]), std::move(lines[i + 1])});
  }
  return variants;
}

}  // namespace pteron::aoti
