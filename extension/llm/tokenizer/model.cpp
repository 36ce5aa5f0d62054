#include "pteron/extension/llm/tokenizer/model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <queue>
#include <utility>

#include "pteron/extension/llm/tokenizer/trie.h"
#include "pteron/extension/llm/tokenizer/utf8.h"

namespace pteron::llm {
namespace {

using Json = nlohmann::json;

// A string member, or an empty string for null or none.
std::string optional_text(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? "" : found->get<std::string>();
}

// The ids of the tokens <0x00> to <0xFF>, as far as the vocabulary has them.
using ByteTokens = std::vector<std::optional<uint32_t>>;

ByteTokens byte_tokens(const Model& model) {
  ByteTokens ids(256);
  for (unsigned i = 0; i < ids.size(); ++i) {
    char name[8] = "";
    std::snprintf(name, sizeof(name), "<0x%02X>", i);
    ids[i] = model.id_of(name);
  }
  return ids;
}

// False, and adds nothing, if the vocabulary lacks one of the bytes.
template <typename Add>
bool add_bytes(const ByteTokens& tokens, std::string_view text, const Add& add) {
  const auto token = [&](char byte) { return tokens[static_cast<uint8_t>(byte)]; };
  if (tokens.empty()) return false;
  for (const char byte : text) {
    if (!token(byte)) return false;
  }
  for (const char byte : text) add(*token(byte));
  return true;
}

Error no_token(std::string_view text) {
  return make_error(Error::InvalidArgument,
                    "the tokenizer has no token for '%s', nor one for unknown text",
                    std::string(text.substr(0, 100)).c_str());
}

class Bpe final : public Model {
 public:
  explicit Bpe(const Json& json) {
    if (const auto dropout = json.find("dropout");
        dropout != json.end() && !dropout->is_null() && *dropout != 0.0) {
      throw Refusal("BPE with dropout, which is random");
    }
    unknown_ = optional_text(json, "unk_token");
    prefix_ = optional_text(json, "continuing_subword_prefix");
    suffix_ = optional_text(json, "end_of_word_suffix");
    fuses_unknown_ = json.value("fuse_unk", false);
    ignores_merges_ = json.value("ignore_merges", false);
    add_all(json.at("vocab"));
    if (json.value("byte_fallback", false)) bytes_ = byte_tokens(*this);
    uint32_t rank = 0;
    for (const Json& merge : json.at("merges")) add_merge(merge, &rank);
  }

  Error tokenize(std::string_view word, std::vector<int64_t>* ids) const override {
    if (ignores_merges_) {
      if (const auto id = id_of(std::string(word))) {
        ids->push_back(*id);
        return Error::Ok;
      }
    }
    std::vector<Symbol> symbols;
    PTERON_RETURN_IF_ERROR(split(word, &symbols));
    merge(&symbols);
    for (const Symbol& symbol : symbols) {
      if (symbol.id != kMerged) ids->push_back(symbol.id);
    }
    return Error::Ok;
  }

 private:
  static constexpr uint32_t kMerged = UINT32_MAX;
  static constexpr size_t kNone = SIZE_MAX;

  struct Symbol {
    uint32_t id;
    size_t previous;
    size_t next;
  };

  struct Merge {
    uint32_t rank;
    uint32_t id;
  };

  struct Candidate {
    uint32_t rank;
    uint32_t id;
    size_t at;
    bool operator<(const Candidate& other) const {  // the first is the last of the order
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  void add_merge(const Json& json, uint32_t* rank) {
    std::string left, right;
    if (json.is_string()) {
      const std::string text = json.get<std::string>();
      if (text.rfind("#version", 0) == 0) return;
      const size_t space = text.find(' ');
      if (space == text.npos || text.find(' ', space + 1) != text.npos) {
        throw Refusal("the merge '" + text + "'; expected two tokens");
      }
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else {
      left = json.at(0).get<std::string>();
      right = json.at(1).get<std::string>();
    }
    const size_t shared = std::min(prefix_.size(), right.size());
    const auto a = id_of(left), b = id_of(right), both = id_of(left + right.substr(shared));
    if (!a || !b || !both) {
      throw Refusal("the merge of '" + left + "' and '" + right + "' without a token of each");
    }
    merges_[uint64_t{*a} << 32 | *b] = {(*rank)++, *both};
  }

  // One symbol for each character, or for its bytes.
  Error split(std::string_view word, std::vector<Symbol>* symbols) const {
    uint32_t pending = kMerged;  // unknown characters that are not yet a symbol
    const auto add = [&](uint32_t id) { symbols->push_back({id, kNone, kNone}); };
    const auto flush = [&] {
      if (pending != kMerged) add(pending);
      pending = kMerged;
    };
    for (size_t at = 0; at < word.size();) {
      const size_t size = character_at(word, at).size;
      std::string text(word.substr(at, size));
      if (at > 0) text = prefix_ + text;
      at += size;
      if (at == word.size()) text += suffix_;
      if (const auto id = id_of(text)) {
        flush();
        add(*id);
      } else if (!add_bytes(bytes_, text, add) && !unknown_.empty()) {
        if (pending != kMerged && fuses_unknown_) continue;
        flush();
        const auto unknown = id_of(unknown_);
        if (!unknown) return no_token(text);
        pending = *unknown;
      }
    }
    flush();
    for (size_t i = 0; i < symbols->size(); ++i) {
      (*symbols)[i].previous = i == 0 ? kNone : i - 1;
      (*symbols)[i].next = i + 1 == symbols->size() ? kNone : i + 1;
    }
    return Error::Ok;
  }

  const Merge* find_merge(const std::vector<Symbol>& symbols, size_t at) const {
    if (at == kNone || symbols[at].next == kNone) return nullptr;
    const uint32_t next = symbols[symbols[at].next].id;
    const auto found = merges_.find(uint64_t{symbols[at].id} << 32 | next);
    return found == merges_.end() ? nullptr : &found->second;
  }

  void merge(std::vector<Symbol>* all) const {
    std::vector<Symbol>& symbols = *all;
    std::priority_queue<Candidate> queue;
    const auto consider = [&](size_t at) {
      if (const Merge* const merge = find_merge(symbols, at)) {
        queue.push({merge->rank, merge->id, at});
      }
    };
    for (size_t i = 0; i < symbols.size(); ++i) consider(i);
    while (!queue.empty()) {
      const Candidate candidate = queue.top();
      queue.pop();
      Symbol& symbol = symbols[candidate.at];
      if (symbol.id == kMerged) continue;
      const Merge* const current = find_merge(symbols, candidate.at);
      if (!current || current->id != candidate.id) continue;
      symbol.id = candidate.id;
      symbols[symbol.next].id = kMerged;
      symbol.next = symbols[symbol.next].next;
      if (symbol.next != kNone) symbols[symbol.next].previous = candidate.at;
      consider(symbol.previous);
      consider(candidate.at);
    }
  }

  std::string unknown_;
  std::string prefix_;
  std::string suffix_;
  bool fuses_unknown_ = false;
  bool ignores_merges_ = false;
  ByteTokens bytes_;  // empty: no fallback
  std::unordered_map<uint64_t, Merge> merges_;
};

// The digits as an integer, then one multiplication or division, as the package reads a number: sums
// of scores that are equal there are equal here.
double read_score(const Json& json) {
  const std::string text = json.get<double>() == 0 ? "0" : Json(json.get<double>()).dump();
  uint64_t digits = 0;
  int exponent = 0;
  bool is_fraction = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == 'e') {
      exponent += std::atoi(text.c_str() + i + 1);
      break;
    }
    is_fraction = is_fraction || text[i] == '.';
    if (text[i] < '0' || text[i] > '9') continue;
    digits = digits * 10 + static_cast<uint64_t>(text[i] - '0');  // at most 17 of them
    exponent -= is_fraction ? 1 : 0;
  }
  const double power = std::pow(10, std::abs(exponent)), value = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? value / power : value * power, json.get<double>());
}

class Unigram final : public Model {
 public:
  explicit Unigram(const Json& json) {
    for (const Json& entry : json.at("vocab")) {
      const std::string piece = entry.at(0).get<std::string>();
      if (piece.size() > Trie::kMaxKey) throw Refusal("a piece of more than 4096 bytes");
      const auto id = static_cast<uint32_t>(scores_.size());
      if (id_of(piece)) throw Refusal("the piece '" + piece + "' twice");
      add(piece, id);
      scores_.push_back(read_score(entry.at(1)));
      // An empty piece is never found.
      if (!piece.empty()) pieces_.insert(piece, id);
    }
    finish();
    if (const auto unknown = json.find("unk_id"); unknown != json.end() && !unknown->is_null()) {
      unknown_ = read_id(*unknown);
      if (*unknown_ >= scores_.size()) throw Refusal("an unk_id outside of the vocabulary");
    }
    if (json.value("byte_fallback", false)) bytes_ = byte_tokens(*this);
    if (scores_.empty()) throw Refusal("a vocabulary without pieces");
    constexpr double kPenalty = 10;
    unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kPenalty;
  }

  // The pieces whose scores have the largest sum.
  Error tokenize(std::string_view word, std::vector<int64_t>* ids) const override {
    struct Node {
      double score = 0;
      size_t begin = SIZE_MAX;
      uint32_t id = 0;
    };
    std::vector<Node> best(word.size() + 1);  // of what ends there
    const auto consider = [&](size_t begin, size_t end, double score, uint32_t id) {
      if (best[end].begin == SIZE_MAX || score > best[end].score) best[end] = {score, begin, id};
    };
    for (size_t at = 0; at < word.size();) {
      const size_t size = character_at(word, at).size;
      const double score = best[at].score;
      bool is_known = false;
      pieces_.visit_prefixes(word.substr(at), [&](size_t length, uint32_t id) {
        consider(at, at + length, scores_[id] + score, id);
        is_known = is_known || length == size;
      });
      if (!is_known) {
        if (!unknown_) return no_token(word.substr(at, size));
        consider(at, at + size, unknown_score_ + score, *unknown_);
      }
      at += size;
    }
    std::vector<std::pair<size_t, size_t>> parts;  // from the last
    bool was_unknown = false;
    for (size_t end = word.size(); end > 0; end = best[end].begin) {
      const bool is_unknown = unknown_ && best[end].id == *unknown_;
      if (is_unknown && was_unknown) {
        parts.back().first = best[end].begin;
      } else {
        parts.emplace_back(best[end].begin, end);
      }
      was_unknown = is_unknown;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const std::string text(word.substr(part->first, part->second - part->first));
      if (const auto id = id_of(text)) {
        ids->push_back(*id);
      } else if (!add_bytes(bytes_, text, [&](uint32_t byte) { ids->push_back(byte); })) {
        ids->push_back(*unknown_);
      }
    }
    return Error::Ok;
  }

 private:
  std::vector<double> scores_;  // of each id
  std::optional<uint32_t> unknown_;
  double unknown_score_ = 0;
  ByteTokens bytes_;  // empty: no fallback
  Trie pieces_;
};

class WordLevel final : public Model {
 public:
  explicit WordLevel(const Json& json) {
    add_all(json.at("vocab"));
    unknown_ = id_of(json.at("unk_token").get<std::string>());
  }

  Error tokenize(std::string_view word, std::vector<int64_t>* ids) const override {
    const auto id = id_of(std::string(word));
    if (!id && !unknown_) return no_token(word);
    ids->push_back(id ? *id : *unknown_);
    return Error::Ok;
  }

 private:
  std::optional<uint32_t> unknown_;
};

}  // namespace

std::unique_ptr<const Model> read_model(const Json& json) {
  // Old files do not name BPE.
  const std::string type = json.value("type", json.contains("merges") ? "BPE" : "");
  if (type == "BPE") return std::make_unique<Bpe>(json);
  if (type == "Unigram") return std::make_unique<Unigram>(json);
  if (type == "WordLevel") return std::make_unique<WordLevel>(json);
  throw Refusal("the model '" + type + "'; expected BPE, Unigram or WordLevel");
}

}  // namespace pteron::llm
