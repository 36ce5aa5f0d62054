// The named data of a program file and its data files, as one map.
//
//   DataMap map;
//   map.add("weights", {&segments, 3, layout});   // for every entry
//   map.finish(&errors);
//
// Borrows keys and segments. Thread-safe after finish().
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "pteron/runtime/backend/named_data_map.h"
#include "pteron/runtime/program_reader/error_list.h"
#include "pteron/runtime/program_reader/segments.h"

namespace pteron {

namespace schema {
struct TensorLayout;
}  // namespace schema

class DataMap final : public NamedDataMap {
 public:
  struct Entry {
    const Segments* segments = nullptr;
    size_t index = 0;                              // < segments->size()
    const schema::TensorLayout* layout = nullptr;  // null for an opaque blob

    Span<const uint8_t> bytes() const { return segments->bytes(index); }
  };

  void add(std::string_view key, const Entry& entry) { entries_.emplace_back(key, entry); }
  // Call before any lookup. A duplicate key is an error; its first entry stays.
  void finish(ErrorList* errors);

  // Null for an unknown key.
  const Entry* find(std::string_view key) const;

  Result<Span<const uint8_t>> get_data(std::string_view key) const override;
  Result<Span<const uint8_t>> get_verified(std::string_view key) const override;
  size_t num_keys() const override { return entries_.size(); }
  Result<std::string_view> get_key(size_t index) const override;

 private:
  Result<const Entry*> get(std::string_view key) const;

  // Sorted by key instead of hashed: keys are untrusted and could cause collisions.
  std::vector<std::pair<std::string_view, Entry>> entries_;
};

}  // namespace pteron
