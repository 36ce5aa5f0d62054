#include "pteron/extension/llm/tokenizer/steps.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "pteron/extension/llm/tokenizer/normalize.h"
#include "pteron/extension/llm/tokenizer/pattern.h"
#include "pteron/extension/llm/tokenizer/refusal.h"
#include "pteron/extension/llm/tokenizer/utf8.h"

namespace pteron::llm {
namespace {

using Json = nlohmann::json;

constexpr char kWords[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr char kRuns[] = "[\\w\\x{200C}\\x{200D}]+|[^\\w\\x{200C}\\x{200D}\\s]+";

std::string type_of(const Json& json, int depth) {
  constexpr int kMaxDepth = 16;
  if (depth > kMaxDepth) throw Refusal("a Sequence in a Sequence, 16 times");
  return json.at("type").get<std::string>();
}

std::string non_empty(const Json& json, const char* name) {
  std::string text = json.at(name).get<std::string>();
  if (text.empty()) throw Refusal(std::string(name) + " is empty");
  return text;
}

// One character.
std::string character(const Json& json, const char* name) {
  std::string text = non_empty(json, name);
  if (character_at(text, 0).size != text.size()) {
    throw Refusal(std::string(name) + " is '" + text + "'; expected one character");
  }
  return text;
}

Pattern expression(const std::string& text) {
  Result<Pattern> pattern = Pattern::regex(text);
  if (!pattern.ok()) throw Refusal(pattern.error().message());
  return *pattern;
}

Pattern read_pattern(const Json& json) {
  if (json.contains("Regex")) return expression(json.at("Regex").get<std::string>());
  return Pattern::literal(non_empty(json, "String"));
}

Error replace_all(const Pattern& pattern, const std::string& content, std::string* text) {
  PTERON_ASSIGN_OR_RETURN(const std::vector<Pattern::Range> ranges, pattern.matches(*text));
  std::string result;
  size_t end = 0;
  for (const Pattern::Range& range : ranges) {
    result.append(*text, end, range.begin - end).append(content);
    end = range.end;
  }
  *text = result.append(*text, end, std::string::npos);
  return Error::Ok;
}

// ---- Bytes as characters: visible ones of Latin-1 are themselves, the others follow U+0100.

using ByteNames = std::array<std::string, 256>;

const ByteNames& byte_names() {
  static const auto* const names = [] {
    auto* const made = new ByteNames;
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool is_visible =
          ('!' <= byte && byte <= '~') || (0xA1 <= byte && byte <= 0xFF && byte != 0xAD);
      append(&(*made)[byte], is_visible ? byte : next++);
    }
    return made;
  }();
  return *names;
}

std::string with_byte_names(std::string_view text) {
  std::string result;
  for (const char byte : text) result += byte_names()[static_cast<uint8_t>(byte)];
  return result;
}

// The bytes that a token names, or the token if it names other things.
std::string named_bytes(const std::string& token) {
  static const auto* const bytes = [] {
    auto* const made = new std::unordered_map<std::string, char>;
    for (size_t i = 0; i < 256; ++i) (*made)[byte_names()[i]] = static_cast<char>(i);
    return made;
  }();
  std::string result;
  for (size_t at = 0; at < token.size();) {
    const size_t size = character_at(token, at).size;
    const auto found = bytes->find(token.substr(at, size));
    if (found == bytes->end()) return token;
    result += found->second;
    at += size;
  }
  return result;
}

// ---- Normalizers

Normalizer in_order(std::vector<Normalizer> steps) {
  return [steps = std::move(steps)](Piece* piece) -> Error {
    for (const Normalizer& step : steps) PTERON_RETURN_IF_ERROR(step(piece));
    return Error::Ok;
  };
}

Normalizer strip(bool left, bool right) {
  return [=](Piece* piece) -> Error {
    const size_t leading = left ? leading_space(piece->text) : 0;
    if (leading > 0) piece->is_first = false;
    piece->text.erase(0, leading);
    if (right) piece->text.erase(piece->text.size() - trailing_space(piece->text));
    return Error::Ok;
  };
}

Normalizer replace(const Pattern& pattern, const std::string& content) {
  return [=](Piece* piece) -> Error {
    std::string text = piece->text;
    PTERON_RETURN_IF_ERROR(replace_all(pattern, content, &text));
    if (content.empty() && text.substr(0, 1) != piece->text.substr(0, 1)) piece->is_first = false;
    piece->text = std::move(text);
    return Error::Ok;
  };
}

// ---- Pre-tokenizers

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior read_behavior(const Json& json) {
  const std::string name = json.at("behavior").get<std::string>();
  const char* const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                               "Contiguous"};
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) throw Refusal("the behavior '" + name + "'");
  return static_cast<Behavior>(found - names);
}

Error split(const Pattern& pattern, Behavior behavior, bool inverted, const Piece& piece,
            std::vector<Piece>* pieces) {
  struct Span {
    size_t begin;
    size_t end;
    bool is_match;
  };
  PTERON_ASSIGN_OR_RETURN(const std::vector<Pattern::Range> ranges, pattern.matches(piece.text));
  std::vector<Span> spans;
  size_t end = 0;
  for (const Pattern::Range& range : ranges) {
    if (end != range.begin) spans.push_back({end, range.begin, inverted});
    spans.push_back({range.begin, range.end, !inverted});
    end = range.end;
  }
  if (end != piece.text.size()) spans.push_back({end, piece.text.size(), inverted});
  const bool backwards = behavior == Behavior::kMergedWithNext;
  if (backwards) std::reverse(spans.begin(), spans.end());
  std::vector<Span> parts;
  bool was_match = false;
  for (const Span& span : spans) {
    bool joins = behavior == Behavior::kContiguous && span.is_match == was_match;
    if (backwards || behavior == Behavior::kMergedWithPrevious) joins = span.is_match && !was_match;
    if (joins && !parts.empty()) {
      (backwards ? parts.back().begin : parts.back().end) = backwards ? span.begin : span.end;
    } else if (behavior != Behavior::kRemoved || !span.is_match) {
      parts.push_back(span);
    }
    was_match = span.is_match;
  }
  if (backwards) std::reverse(parts.begin(), parts.end());
  for (const Span& part : parts) {
    if (part.begin == part.end) continue;
    pieces->push_back({piece.text.substr(part.begin, part.end - part.begin), Piece::kText,
                       piece.is_first && part.begin == 0});
  }
  return Error::Ok;
}

PreTokenizer splitter(const Pattern& pattern, Behavior behavior, bool inverted = false) {
  return [=](const Piece& piece, std::vector<Piece>* pieces) {
    return split(pattern, behavior, inverted, piece, pieces);
  };
}

PreTokenizer in_order(std::vector<PreTokenizer> steps) {
  return [steps = std::move(steps)](Piece piece, std::vector<Piece>* pieces) -> Error {
    std::vector<Piece> current{std::move(piece)};
    for (const PreTokenizer& step : steps) {
      std::vector<Piece> next;
      for (Piece& part : current) PTERON_RETURN_IF_ERROR(step(std::move(part), &next));
      current = std::move(next);
    }
    std::move(current.begin(), current.end(), std::back_inserter(*pieces));
    return Error::Ok;
  };
}

PreTokenizer byte_level(const Json& json) {
  const bool adds_space = json.at("add_prefix_space").get<bool>();
  std::optional<Pattern> words;
  if (json.value("use_regex", true)) words = expression(kWords);
  return [=](Piece piece, std::vector<Piece>* pieces) -> Error {
    if (adds_space && piece.text[0] != ' ') piece.text.insert(0, " ");
    const size_t begin = pieces->size();
    if (words) {
      PTERON_RETURN_IF_ERROR(split(*words, Behavior::kIsolated, false, piece, pieces));
    } else {
      pieces->push_back(std::move(piece));
    }
    for (size_t i = begin; i < pieces->size(); ++i) {
      (*pieces)[i].text = with_byte_names((*pieces)[i].text);
    }
    return Error::Ok;
  };
}

// "always", "first" or "never".
std::string prepend_scheme(const Json& json) {
  const bool never = !json.value("add_prefix_space", true);
  std::string scheme = json.value("prepend_scheme", never ? "never" : "always");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    throw Refusal("the prepend_scheme '" + scheme + "'");
  }
  return scheme;
}

PreTokenizer metaspace(const Json& json) {
  const std::string replacement = character(json, "replacement");
  const std::string scheme = prepend_scheme(json);
  const bool splits = json.value("split", true);
  const Pattern space = Pattern::literal(" "), mark = Pattern::literal(replacement);
  return [=](Piece piece, std::vector<Piece>* pieces) -> Error {
    PTERON_RETURN_IF_ERROR(replace_all(space, replacement, &piece.text));
    const bool prepends = scheme == "always" || (scheme == "first" && piece.is_first);
    if (prepends && piece.text.compare(0, replacement.size(), replacement) != 0) {
      piece.text.insert(0, replacement);
    }
    if (splits) return split(mark, Behavior::kMergedWithNext, false, piece, pieces);
    pieces->push_back(std::move(piece));
    return Error::Ok;
  };
}

// ---- Decoders

Decoder in_order(std::vector<Decoder> steps) {
  return [steps = std::move(steps)](std::vector<std::string>* tokens, bool is_raw) -> Error {
    for (const Decoder& step : steps) PTERON_RETURN_IF_ERROR(step(tokens, is_raw));
    return Error::Ok;
  };
}

void fuse(std::vector<std::string>* tokens) {
  std::string text;
  for (const std::string& token : *tokens) text += token;
  *tokens = {std::move(text)};
}

Error decode_byte_level(std::vector<std::string>* tokens, bool is_raw) {
  for (std::string& token : *tokens) token = named_bytes(token);
  fuse(tokens);
  if (!is_raw) tokens->front() = with_replacements(tokens->front());
  return Error::Ok;
}

// The byte of a token like <0x0A>.
std::optional<char> fallback_byte(const std::string& token) {
  if (token.size() != 6 || token.compare(0, 3, "<0x") != 0 || token[5] != '>') return std::nullopt;
  const std::string digits = token.substr(3, 2);
  if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return std::nullopt;
  return static_cast<char>(std::strtol(digits.c_str(), nullptr, 16));
}

Error decode_byte_fallback(std::vector<std::string>* tokens, bool is_raw) {
  std::vector<std::string> result;
  std::string bytes;
  const auto flush = [&] {
    if (is_raw || check_utf8(bytes).ok()) {
      if (!bytes.empty()) result.push_back(bytes);
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) result.emplace_back("\uFFFD");
    }
    bytes.clear();
  };
  for (std::string& token : *tokens) {
    if (const std::optional<char> byte = fallback_byte(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    result.push_back(std::move(token));
  }
  flush();
  *tokens = std::move(result);
  return Error::Ok;
}

Decoder decode_strip(const Json& json) {
  const std::string content = character(json, "content");
  const size_t start = read_id(json.at("start")), stop = read_id(json.at("stop"));
  return [=](std::vector<std::string>* tokens, bool) -> Error {
    for (std::string& token : *tokens) {
      const auto size = content.size();
      size_t begin = 0, end = token.size();
      for (size_t i = 0; i < start && token.compare(begin, size, content) == 0; ++i) begin += size;
      for (size_t i = 0; i < stop && end >= begin + size; ++i) {
        if (token.compare(end - size, size, content) != 0) break;
        end -= size;
      }
      token = token.substr(begin, end - begin);
    }
    return Error::Ok;
  };
}

Decoder decode_metaspace(const Json& json) {
  const Pattern mark = Pattern::literal(character(json, "replacement"));
  const bool drops_first = prepend_scheme(json) != "never";
  return [=](std::vector<std::string>* tokens, bool) -> Error {
    for (size_t i = 0; i < tokens->size(); ++i) {
      const char* const content = i == 0 && drops_first ? "" : " ";
      PTERON_RETURN_IF_ERROR(replace_all(mark, content, &(*tokens)[i]));
    }
    return Error::Ok;
  };
}

}  // namespace

Normalizer read_normalizer(const Json& json, int depth) {
  if (json.is_null()) return in_order(std::vector<Normalizer>());
  const std::string type = type_of(json, depth);
  if (type == "Sequence") {
    std::vector<Normalizer> steps;
    for (const Json& step : json.at("normalizers")) {
      steps.push_back(read_normalizer(step, depth + 1));
    }
    return in_order(std::move(steps));
  }
  const std::pair<const char*, Form> forms[] = {
      {"NFC", Form::kNfc}, {"NFD", Form::kNfd}, {"NFKC", Form::kNfkc}, {"NFKD", Form::kNfkd}};
  for (const auto& [name, form] : forms) {
    if (type != name) continue;
    return [form = form](Piece* piece) -> Error {
      piece->text = normalize(piece->text, form);
      return Error::Ok;
    };
  }
  if (type == "Replace") {
    return replace(read_pattern(json.at("pattern")), json.at("content").get<std::string>());
  }
  if (type == "Prepend") {
    return [content = json.at("prepend").get<std::string>()](Piece* piece) -> Error {
      if (!piece->text.empty()) piece->text.insert(0, content);
      return Error::Ok;
    };
  }
  if (type == "Strip") {
    return strip(json.at("strip_left").get<bool>(), json.at("strip_right").get<bool>());
  }
  if (type == "ByteLevel") {
    return [](Piece* piece) -> Error {
      piece->text = with_byte_names(piece->text);
      return Error::Ok;
    };
  }
  throw Refusal("the normalizer '" + type + "'");
}

PreTokenizer read_pre_tokenizer(const Json& json, int depth) {
  if (json.is_null()) return in_order(std::vector<PreTokenizer>());
  const std::string type = type_of(json, depth);
  if (type == "Sequence") {
    std::vector<PreTokenizer> steps;
    for (const Json& step : json.at("pretokenizers")) {
      steps.push_back(read_pre_tokenizer(step, depth + 1));
    }
    return in_order(std::move(steps));
  }
  if (type == "ByteLevel") return byte_level(json);
  if (type == "Metaspace") return metaspace(json);
  if (type == "Split") {
    const bool inverted = json.at("invert").get<bool>();
    return splitter(read_pattern(json.at("pattern")), read_behavior(json), inverted);
  }
  if (type == "Digits") {
    const bool each = json.at("individual_digits").get<bool>();
    return splitter(expression("\\p{N}"), each ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (type == "Punctuation") {
    return splitter(expression("[\\p{P}$+<=>^`|~]"), read_behavior(json));
  }
  if (type == "Whitespace") {
    return splitter(expression(kRuns), Behavior::kRemoved, /*inverted=*/true);
  }
  if (type == "WhitespaceSplit") return splitter(expression("\\s"), Behavior::kRemoved);
  if (type == "CharDelimiterSplit") {
    return splitter(Pattern::literal(character(json, "delimiter")), Behavior::kRemoved);
  }
  throw Refusal("the pre-tokenizer '" + type + "'");
}

Decoder read_decoder(const Json& json, int depth) {
  if (json.is_null()) {  // words
    return [](std::vector<std::string>* tokens, bool) -> Error {
      for (size_t i = 1; i < tokens->size(); ++i) (*tokens)[i].insert(0, " ");
      return Error::Ok;
    };
  }
  const std::string type = type_of(json, depth);
  if (type == "Sequence") {
    std::vector<Decoder> steps;
    for (const Json& step : json.at("decoders")) steps.push_back(read_decoder(step, depth + 1));
    return in_order(std::move(steps));
  }
  if (type == "ByteLevel") return decode_byte_level;
  if (type == "ByteFallback") return decode_byte_fallback;
  if (type == "Metaspace") return decode_metaspace(json);
  if (type == "Strip") return decode_strip(json);
  if (type == "Fuse") {
    return [](std::vector<std::string>* tokens, bool) -> Error {
      fuse(tokens);
      return Error::Ok;
    };
  }
  if (type == "Replace") {
    return [pattern = read_pattern(json.at("pattern")),
            content = json.at("content").get<std::string>()](std::vector<std::string>* tokens,
                                                             bool) -> Error {
      for (std::string& token : *tokens) {
        PTERON_RETURN_IF_ERROR(replace_all(pattern, content, &token));
      }
      return Error::Ok;
    };
  }
  throw Refusal("the decoder '" + type + "'");
}

}  // namespace pteron::llm
