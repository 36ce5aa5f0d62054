// The named data of a program file and of the data files beside it, as one map.
//
//   DataMap map;
//   map.add("weights", {&segments, 3, layout}, &errors);   // for every entry
//   map.finish();
//
// Borrows keys and segments. Thread-safe after finish().
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
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

  // A key that is there already is a problem, and the first entry stays.
  void add(std::string_view key, const Entry& entry, ErrorList* errors);
  // Sorts the keys.
  void finish();

  // Null for an unknown key.
  const Entry* find(std::string_view key) const;

  Result<Span<const uint8_t>> get_data(std::string_view key) const override;
  Result<Span<const uint8_t>> get_verified(std::string_view key) const override;
  size_t num_keys() const override { return keys_.size(); }
  Result<std::string_view> get_key(size_t index) const override;

 private:
  Result<const Entry*> get(std::string_view key) const;

  std::unordered_map<std::string_view, Entry> entries_;
  std::vector<std::string_view> keys_;  // sorted
};

}  // namespace pteron
