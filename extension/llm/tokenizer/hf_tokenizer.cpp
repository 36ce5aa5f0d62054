#include "pteron/extension/llm/tokenizer/hf_tokenizer.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "pteron/extension/llm/tokenizer/model.h"
#include "pteron/extension/llm/tokenizer/pattern.h"
#include "pteron/extension/llm/tokenizer/refusal.h"
#include "pteron/extension/llm/tokenizer/steps.h"
#include "pteron/extension/llm/tokenizer/trie.h"
#include "pteron/extension/llm/tokenizer/utf8.h"
#include "pteron/runtime/core/catch_exceptions.h"
#include "pteron/runtime/module.h"

namespace pteron::llm {
namespace {

using Json = nlohmann::json;

struct AddedToken {
  std::string content;
  bool is_special = false;
  bool is_word = false;  // not within a longer word
  bool strips_left = false;
  bool strips_right = false;
};

// The ids of a post-processor around a text.
struct Frame {
  std::vector<int64_t> before;
  std::vector<int64_t> after;
};

void read_frame(const Json& json, int depth, Frame* frame) {
  if (json.is_null()) return;
  const std::string type = json.at("type").get<std::string>();
  if (depth > 16) throw Refusal("a Sequence in a Sequence, 16 times");
  if (type == "Sequence") {
    for (const Json& step : json.at("processors")) read_frame(step, depth + 1, frame);
  } else if (type == "TemplateProcessing") {
    Frame added;
    bool is_after = false;
    for (const Json& part : json.at("single")) {
      if (part.contains("Sequence")) {
        if (is_after) throw Refusal("a template with two sequences for a single text");
        is_after = true;
        continue;
      }
      const std::string name = part.at("SpecialToken").at("id").get<std::string>();
      for (const Json& id : json.at("special_tokens").at(name).at("ids")) {
        (is_after ? added.after : added.before).push_back(read_id(id));
      }
    }
    if (!is_after) throw Refusal("a template without a sequence");
    frame->before.insert(frame->before.begin(), added.before.begin(), added.before.end());
    frame->after.insert(frame->after.end(), added.after.begin(), added.after.end());
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    frame->before.insert(frame->before.begin(), read_id(json.at("cls").at(1)));
    frame->after.push_back(read_id(json.at("sep").at(1)));
  } else if (type != "ByteLevel") {
    throw Refusal("the post-processor '" + type + "'");
  }
}

}  // namespace

struct HFTokenizer::Parts {
  std::unique_ptr<const Model> model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  Frame frame;
  std::map<int64_t, AddedToken> added;
  std::map<std::string, int64_t> added_ids;
  size_t vocabulary = 0;
  Trie raw;         // added tokens in a text
  Trie normalized;  // added tokens in a normalized text
  std::optional<Pattern> word;

  void read_added(const Json& tokens);
  Error split_added(const Trie& trie, const Piece& piece, std::vector<Piece>* pieces) const;
  bool is_within_word(std::string_view text, size_t begin, size_t end) const;
};

// A token that the model does not know gets the id after the largest one.
void HFTokenizer::Parts::read_added(const Json& tokens) {
  vocabulary = model->size();
  int64_t next = static_cast<int64_t>(vocabulary);
  for (const Json& json : tokens) {
    AddedToken token{json.at("content").get<std::string>(), json.at("special").get<bool>(),
                     json.at("single_word").get<bool>(), json.at("lstrip").get<bool>(),
                     json.at("rstrip").get<bool>()};
    if (token.content.empty()) continue;
    if (token.content.size() > Trie::kMaxKey) {
      throw Refusal("an added token of more than 4096 bytes");
    }
    const auto known = added_ids.find(token.content);
    std::optional<int64_t> expected = model->id_of(token.content);
    if (known != added_ids.end()) expected = known->second;
    if (!expected) ++vocabulary;
    const int64_t id = expected.value_or(next);
    if (read_id(json.at("id")) != id) {
      throw Refusal("the added token '" + token.content + "' with id " + json.at("id").dump() +
                    "; expected " + std::to_string(id) + ", which the model or the order gives");
    }
    next = std::max(next, id + 1);
    Piece normal{token.content};
    if (json.at("normalized").get<bool>()) {
      if (const Error error = normalizer(&normal); !error.ok()) throw Refusal(error.message());
      if (!normal.text.empty()) normalized.insert(normal.text, static_cast<uint32_t>(id));
    } else {
      raw.insert(token.content, static_cast<uint32_t>(id));
    }
    added_ids[token.content] = id;
    added[id] = std::move(token);
  }
}

bool HFTokenizer::Parts::is_within_word(std::string_view text, size_t begin, size_t end) const {
  const auto is_word = [&](size_t at) {
    const Result<std::vector<Pattern::Range>> found =
        word->matches(text.substr(at, character_at(text, at).size));
    return found.ok() && !found->empty();
  };
  size_t before = begin;
  while (before > 0 && (static_cast<uint8_t>(text[--before]) & 0xC0) == 0x80) continue;
  return (begin > 0 && is_word(before)) || (end < text.size() && is_word(end));
}

// The longest tokens from left to right, and the texts between them.
Error HFTokenizer::Parts::split_added(const Trie& trie, const Piece& piece,
                                      std::vector<Piece>* pieces) const {
  const std::string_view text = piece.text;
  size_t end = 0;  // of the last piece
  const auto add = [&](size_t begin, size_t stop, int64_t token) {
    if (begin == stop) return;
    const bool is_first = piece.is_first && begin == 0;
    pieces->push_back({std::string(text.substr(begin, stop - begin)), token, is_first});
  };
  for (size_t at = 0; at < text.size();) {
    size_t size = 0;
    int64_t id = Piece::kText;
    trie.visit_prefixes(text.substr(at), [&](size_t length, uint32_t value) {
      size = length;
      id = value;
    });
    if (size == 0) {
      at += character_at(text, at).size;
      continue;
    }
    const AddedToken& token = added.at(id);
    size_t begin = at, stop = at + size;
    at = stop;
    if (token.is_word && is_within_word(text, begin, stop)) continue;
    if (token.strips_left) {
      begin = std::max(begin - trailing_space(text.substr(0, begin)), end);
    }
    if (token.strips_right) stop += leading_space(text.substr(stop));
    if (end < begin) add(end, begin, Piece::kText);
    add(begin, stop, id);
    end = stop;
  }
  if (end < text.size()) add(end, text.size(), Piece::kText);
  return Error::Ok;
}

HFTokenizer::HFTokenizer() = default;
HFTokenizer::~HFTokenizer() = default;

Error HFTokenizer::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  PTERON_CHECK_OR_RETURN(file.good() || !text.empty(), Error::AccessFailed,
                         "cannot read the tokenizer %s; expected a tokenizer.json", path.c_str());
  return load_json(text).with_context(path);
}

Error HFTokenizer::load_of_program(Module* module) {
  if (is_loaded()) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(const Module::Outputs outputs, module->execute("tokenizer"));
  PTERON_CHECK_OR_RETURN(outputs.size() == 1 && outputs[0].is_string(), Error::InvalidProgram,
                         "tokenizer of the program is no text");
  return load_json(outputs[0].to_string()).with_context("the program's tokenizer");
}

Error HFTokenizer::load_json(std::string_view text) {
  return catch_exceptions([&]() -> Error {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    PTERON_CHECK_OR_RETURN(json.is_object() && json.contains("model"), Error::InvalidArgument,
                           "this is no tokenizer.json: expected a JSON object with a model");
    auto parts = std::make_unique<Parts>();
    std::string problems;
    const auto read = [&](const char* name, const auto& set) {
      try {
        const auto found = json.find(name);
        set(found == json.end() ? Json() : *found);
      } catch (const Refusal& refusal) {
        problems += "\n" + std::string(name) + ": " + refusal.what();
      } catch (const Json::exception& exception) {
        problems += "\n" + std::string(name) + ": " + exception.what();
      }
    };
    parts->word = *Pattern::regex("[\\w\\x{200C}\\x{200D}]");
    read("model", [&](const Json& model) { parts->model = read_model(model); });
    read("normalizer", [&](const Json& step) { parts->normalizer = read_normalizer(step); });
    read("pre_tokenizer",
         [&](const Json& step) { parts->pre_tokenizer = read_pre_tokenizer(step); });
    read("decoder", [&](const Json& step) { parts->decoder = read_decoder(step); });
    read("post_processor", [&](const Json& step) { read_frame(step, 0, &parts->frame); });
    if (problems.empty()) {
      read("added_tokens", [&](const Json& tokens) { parts->read_added(tokens); });
    }
    PTERON_CHECK_OR_RETURN(problems.empty(), Error::InvalidArgument,
                           "this tokenizer.json is wrong or has what is not supported:%s",
                           problems.c_str());
    parts_ = std::move(parts);
    return Error::Ok;
  });
}

Result<std::vector<int64_t>> HFTokenizer::encode(std::string_view text, int8_t bos,
                                                 int8_t eos) const {
  PTERON_CHECK_OR_RETURN(is_loaded(), Error::InvalidState, "no tokenizer is loaded");
  PTERON_RETURN_IF_ERROR(check_utf8(text));
  const auto& [before, after] = parts_->frame;
  PTERON_CHECK_OR_RETURN(
      (bos <= 0 || !before.empty()) && (eos <= 0 || !after.empty()), Error::InvalidArgument,
      "bos is %d and eos is %d; the tokenizer adds %zu tokens before a text and %zu after it", bos,
      eos, before.size(), after.size());
  return catch_exceptions([&]() -> Result<std::vector<int64_t>> {
    const Pattern::TimeLimit limit;
    std::vector<int64_t> ids;
    if (bos < 0) ids = before;
    if (bos > 0) ids.assign(static_cast<size_t>(bos), before.front());
    std::vector<Piece> raw, normalized, pieces;
    PTERON_RETURN_IF_ERROR(
        parts_->split_added(parts_->raw, {std::string(text), Piece::kText, true}, &raw));
    for (Piece& piece : raw) {
      if (piece.token == Piece::kText) {
        PTERON_RETURN_IF_ERROR(parts_->normalizer(&piece));
        PTERON_RETURN_IF_ERROR(parts_->split_added(parts_->normalized, piece, &normalized));
      } else {
        normalized.push_back(std::move(piece));
      }
    }
    for (Piece& piece : normalized) {
      pieces.clear();
      if (piece.token == Piece::kText) {
        PTERON_RETURN_IF_ERROR(parts_->pre_tokenizer(std::move(piece), &pieces));
      } else {
        ids.push_back(piece.token);
      }
      for (const Piece& part : pieces) {
        PTERON_RETURN_IF_ERROR(parts_->model->tokenize(part.text, &ids));
      }
    }
    if (eos < 0) ids.insert(ids.end(), after.begin(), after.end());
    if (eos > 0) ids.insert(ids.end(), static_cast<size_t>(eos), after.back());
    return ids;
  });
}

Result<std::string> HFTokenizer::decode(const std::vector<int64_t>& ids, bool skips_special,
                                        bool is_raw) const {
  PTERON_CHECK_OR_RETURN(is_loaded(), Error::InvalidState, "no tokenizer is loaded");
  return catch_exceptions([&]() -> Result<std::string> {
    const Pattern::TimeLimit limit;
    std::vector<std::string> tokens;
    for (const int64_t id : ids) {
      const auto added = parts_->added.find(id);
      if (added != parts_->added.end()) {
        if (!skips_special || !added->second.is_special) tokens.push_back(added->second.content);
      } else if (const std::string* const token = parts_->model->token_of(id)) {
        tokens.push_back(*token);
      }
    }
    PTERON_RETURN_IF_ERROR(parts_->decoder(&tokens, is_raw));
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
  });
}

Result<std::string> HFTokenizer::decode(const std::vector<int64_t>& ids,
                                        bool skip_special_tokens) const {
  return decode(ids, skip_special_tokens, /*is_raw=*/false);
}

Result<std::string> HFTokenizer::decode(int64_t previous, int64_t token) const {
  PTERON_ASSIGN_OR_RETURN(const std::string before, decode({previous}, true, /*is_raw=*/true));
  PTERON_ASSIGN_OR_RETURN(const std::string both, decode({previous, token}, true, /*is_raw=*/true));
  return both.substr(std::min(before.size(), both.size()));
}

namespace {

// As the package's DecodeStream: a text that ends with U+FFFD waits for further tokens.
class Stream final : public DecodeStream {
 public:
  Stream(const HFTokenizer& tokenizer, std::vector<int64_t> ids)
      : tokenizer_(tokenizer), ids_(std::move(ids)) {}

  Result<std::string> step(int64_t token) override {
    if (!has_begun_) {
      PTERON_ASSIGN_OR_RETURN(known_, tokenizer_.decode(ids_));
      known_size_ = ids_.size();
      has_begun_ = true;
    }
    ids_.push_back(token);
    PTERON_ASSIGN_OR_RETURN(const std::string text, tokenizer_.decode(ids_));
    if (!is_complete(text)) return std::string();
    // Bytes that were a character by themselves may be none with those that follow.
    auto end = std::mismatch(text.begin(), text.end(), known_.begin(), known_.end()).first;
    while (end != text.begin() && end != text.end() && (*end & 0xC0) == 0x80) --end;
    std::string added(end, text.end());
    if (added.empty()) return added;
    ids_.erase(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(known_size_));
    known_size_ = ids_.size();
    PTERON_ASSIGN_OR_RETURN(known_, tokenizer_.decode(ids_));
    return added;
  }

 private:
  static bool is_complete(const std::string& text) {
    const std::string_view unknown = "\uFFFD";
    return text.size() < unknown.size() ||
           text.compare(text.size() - unknown.size(), unknown.size(), unknown) != 0;
  }

  const HFTokenizer& tokenizer_;
  std::vector<int64_t> ids_;  // the last ones
  std::string known_;         // the text of the first of them, which was passed on
  size_t known_size_ = 0;
  bool has_begun_ = false;
};

}  // namespace

std::unique_ptr<DecodeStream> HFTokenizer::decode_stream(std::vector<int64_t> ids) const {
  return std::make_unique<Stream>(*this, std::move(ids));
}

size_t HFTokenizer::vocab_size() const { return parts_ ? parts_->vocabulary : 0; }

std::optional<int64_t> HFTokenizer::token_to_id(const std::string& token) const {
  if (!parts_) return std::nullopt;
  const auto added = parts_->added_ids.find(token);
  if (added != parts_->added_ids.end()) return added->second;
  return parts_->model->id_of(token);
}

std::optional<std::string> HFTokenizer::id_to_token(int64_t id) const {
  if (!parts_) return std::nullopt;
  const auto added = parts_->added.find(id);
  if (added != parts_->added.end()) return added->second.content;
  const std::string* const token = parts_->model->token_of(id);
  return token ? std::optional(*token) : std::nullopt;
}

}  // namespace pteron::llm
