#include "pteron/backends/aoti/runtime/payload_keys.h"

namespace pteron::aoti {

Result<PayloadKeys> PayloadKeys::parse(Span<const uint8_t> processed) {
  std::string text(reinterpret_cast<const char*>(processed.data()), processed.size());
  const size_t line = text.find('\n');
  const bool two_lines = line != std::string::npos && line > 0;
  PayloadKeys keys;
  if (two_lines) {
    keys.code = text.substr(0, line);
    keys.weights = text.substr(line + 1);
    if (!keys.weights.empty() && keys.weights.back() == '\n') keys.weights.pop_back();
  }
  PTERON_CHECK_OR_RETURN(two_lines && keys.weights.find('\n') == std::string::npos,
                         Error::InvalidProgram,
                         "the delegate's %zu processed bytes are not two lines, the keys of its "
                         "code and of its weights",
                         processed.size());
  return keys;
}

}  // namespace pteron::aoti
