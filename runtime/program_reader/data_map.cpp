#include "pteron/runtime/program_reader/data_map.h"

#include <algorithm>

namespace pteron {
namespace {

int length_of(std::string_view text) { return static_cast<int>(text.size()); }

}  // namespace

void DataMap::finish(ErrorList* errors) {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto same_key = [&](const auto& a, const auto& b) {
    if (a.first != b.first) return false;
    errors->add("named data \"%.*s\" is in %s and again in %s", length_of(a.first), a.first.data(),
                a.second.segments->file_name().c_str(), b.second.segments->file_name().c_str());
    return true;
  };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same_key), entries_.end());
}

const DataMap::Entry* DataMap::find(std::string_view key) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), key,
                       [](const auto& entry, std::string_view name) { return entry.first < name; });
  return found == entries_.end() || found->first != key ? nullptr : &found->second;
}

Result<const DataMap::Entry*> DataMap::get(std::string_view key) const {
  const Entry* const entry = find(key);
  PTERON_CHECK_OR_RETURN(
      entry, Error::NotFound,
      "no named data \"%.*s\" among %zu keys; give the .ptd file that was written "
      "with the program (Python: data_path, C++: LoadOptions::data_paths)",
      length_of(key), key.data(), entries_.size());
  return entry;
}

Result<Span<const uint8_t>> DataMap::get_data(std::string_view key) const {
  PTERON_ASSIGN_OR_RETURN(const Entry* const entry, get(key));
  return entry->bytes();
}

Result<Span<const uint8_t>> DataMap::get_verified(std::string_view key) const {
  PTERON_ASSIGN_OR_RETURN(const Entry* const entry, get(key));
  PTERON_RETURN_IF_ERROR(entry->segments->verify(entry->index));
  return entry->bytes();
}

Result<std::string_view> DataMap::get_key(size_t index) const {
  PTERON_CHECK_OR_RETURN(index < entries_.size(), Error::NotFound, "key %zu of %zu", index,
                         entries_.size());
  return entries_[index].first;
}

}  // namespace pteron
