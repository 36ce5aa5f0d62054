// Models of a tokenizer.json, which turn a word into tokens: BPE, Unigram, WordLevel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pteron/extension/llm/tokenizer/refusal.h"
#include "pteron/runtime/core/error.h"

namespace pteron::llm {

// Immutable, so that threads may share it.
class Model {
 public:
  virtual ~Model() = default;

  // Adds the tokens of `word`, valid UTF-8 that is not empty, to `ids`. InvalidArgument: the model
  // has no token for it.
  virtual Error tokenize(std::string_view word, std::vector<int64_t>* ids) const = 0;

  size_t size() const { return ids_.size(); }
  std::optional<uint32_t> id_of(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  const std::string* token_of(int64_t id) const {
    const auto found = tokens_.find(id);
    return found == tokens_.end() ? nullptr : found->second;
  }

 protected:
  void add(const std::string& token, uint32_t id) { ids_[token] = id; }
  void finish() {
    for (const auto& [token, id] : ids_) tokens_[id] = &token;
  }
  void add_all(const nlohmann::json& vocabulary) {
    if (!vocabulary.is_object()) throw Refusal("a vocabulary that is no object");
    for (const auto& [token, id] : vocabulary.items()) add(token, read_id(id));
    finish();
  }

 private:
  std::unordered_map<std::string, uint32_t> ids_;
  std::unordered_map<int64_t, const std::string*> tokens_;
};

// Throws Refusal or nlohmann::json::exception.
std::unique_ptr<const Model> read_model(const nlohmann::json& json);

}  // namespace pteron::llm
