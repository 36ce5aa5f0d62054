#include "pteron/runtime/program_reader/data_map.h"

#include <algorithm>

namespace pteron {
namespace {

int length_of(std::string_view text) { return static_cast<int>(text.size()); }

}  // namespace

void DataMap::add(std::string_view key, const Entry& entry, ErrorList* errors) {
  const auto [found, added] = entries_.emplace(key, entry);
  if (!added) {
    errors->add("named data \"%.*s\" is in %s and again in %s", length_of(key), key.data(),
                found->second.segments->file_name().c_str(), entry.segments->file_name().c_str());
    return;
  }
  keys_.push_back(key);
}

void DataMap::finish() { std::sort(keys_.begin(), keys_.end()); }

const DataMap::Entry* DataMap::find(std::string_view key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

Result<const DataMap::Entry*> DataMap::get(std::string_view key) const {
  const Entry* const entry = find(key);
  PTERON_CHECK_OR_RETURN(entry, Error::NotFound,
                         "no named data \"%.*s\" among %zu keys; is a tensor-data file missing?",
                         length_of(key), key.data(), keys_.size());
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
  PTERON_CHECK_OR_RETURN(index < keys_.size(), Error::NotFound, "key %zu of %zu", index,
                         keys_.size());
  return keys_[index];
}

}  // namespace pteron
