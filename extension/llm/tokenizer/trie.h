// Strings by their beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pteron::llm {

class Trie final {
 public:
  static constexpr size_t kMaxKey = 4096;  // bytes, so that a search takes linear time

  // Keeps the value of a key that is known.
  void insert(std::string_view key, uint32_t value) {
    uint32_t node = 0;
    for (const char c : key) {
      const auto next = static_cast<uint32_t>(values_.size());
      const auto [edge, is_new] = edges_.emplace(edge_of(node, c), next);
      if (is_new) values_.push_back(kNone);
      node = edge->second;
    }
    if (values_[node] == kNone) values_[node] = value;
  }

  // Calls visit(size, value) for each key with which `text` begins, the shortest first.
  template <typename Visit>
  void visit_prefixes(std::string_view text, const Visit& visit) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto edge = edges_.find(edge_of(node, text[i]));
      if (edge == edges_.end()) return;
      node = edge->second;
      if (values_[node] != kNone) visit(i + 1, static_cast<uint32_t>(values_[node]));
    }
  }

 private:
  static constexpr int64_t kNone = -1;

  static uint64_t edge_of(uint32_t node, char c) {
    return uint64_t{node} << 8 | static_cast<uint8_t>(c);
  }

  std::unordered_map<uint64_t, uint32_t> edges_;
  std::vector<int64_t> values_{kNone};  // of each node
};

}  // namespace pteron::llm
