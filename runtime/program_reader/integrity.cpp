#include "pteron/runtime/program_reader/integrity.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <thread>

#include "pteron/runtime/platform/sha256.h"

namespace pteron {
namespace {

int length_of(std::string_view text) { return static_cast<int>(text.size()); }

std::string hex(const uint8_t* digest) {
  Sha256Digest copy;
  std::copy_n(digest, copy.size(), copy.begin());
  return to_hex(copy).substr(0, 16);
}

// Whether `offset` to `end` are zeros.
bool is_zero(Span<const uint8_t> file, uint64_t offset, uint64_t end) {
  return std::all_of(file.data() + offset, file.data() + end,
                     [](uint8_t byte) { return byte == 0; });
}

}  // namespace

Error read_external_digests(const DataMap& map, const Segments& own, ExternalDigests* digests) {
  const DataMap::Entry* const entry = map.find(kExternalDigests);
  if (!entry || entry->segments != &own) return Error::Ok;
  PTERON_RETURN_IF_ERROR(own.verify(entry->index));
  const Span<const uint8_t> bytes = entry->bytes();
  for (size_t at = 0; at < bytes.size();) {
    // u32 n, n bytes of the key, 32 bytes
    uint32_t length = 0;
    const size_t left = bytes.size() - at;
    if (left >= 4) std::memcpy(&length, bytes.data() + at, 4);
    PTERON_CHECK_OR_RETURN(left >= 4 && left - 4 >= uint64_t{length} + 32, Error::InvalidProgram,
                           "named data \"%s\" ends within an entry", kExternalDigests.data());
    const char* const key = reinterpret_cast<const char*>(bytes.data() + at + 4);
    const std::string_view name(key, length);
    PTERON_CHECK_OR_RETURN(digests->empty() || digests->back().first < name, Error::InvalidProgram,
                           "the keys of named data \"%s\" are not sorted", kExternalDigests.data());
    digests->emplace_back(name, bytes.data() + at + 4 + length);
    at += 4 + size_t{length} + 32;
  }
  return Error::Ok;
}

Error check_allowed(const FileLayout& layout, const std::vector<Sha256Digest>& allowed,
                    const std::string& name) {
  // As it is in the file: the digest in the table is the same for any digests of segments.
  const Sha256Digest digest = sha256(layout.flatbuffer);
  const bool is_allowed = std::find(allowed.begin(), allowed.end(), digest) != allowed.end();
  PTERON_CHECK_OR_RETURN(
      is_allowed, Error::AccessFailed,
      "%s: it is not one of the %zu files that its signature, or the caller, allows (digest %s...)",
      name.c_str(), allowed.size(), hex(digest.data()).c_str());
  return Error::Ok;
}

void check_external_data(const DataMap& map, const Segments& own, const ExternalDigests& digests,
                         bool required, ErrorList* errors) {
  // Of data in files without digests; several keys may be of one segment.
  std::map<std::pair<const Segments*, size_t>, Sha256Digest> hashed;
  for (size_t i = 0; i < map.num_keys(); ++i) {
    const std::string_view key = *map.get_key(i);
    const DataMap::Entry& entry = *map.find(key);
    if (entry.segments == &own) continue;
    const auto named = std::lower_bound(
        digests.begin(), digests.end(), key,
        [](const auto& digest, std::string_view name) { return digest.first < name; });
    const char* const file = entry.segments->file_name().c_str();
    if (named == digests.end() || named->first != key) {
      if (required) {
        errors->add(Error::InvalidExternalData,
                    "\"%.*s\" in %s is data whose digest the program does not name, which "
                    "Verification.Required asks for; lower the model again",
                    length_of(key), key.data(), file);
      }
      continue;
    }
    Sha256Digest found;
    if (const uint8_t* const digest = entry.segments->digest_bytes(entry.index)) {
      std::copy_n(digest, found.size(), found.begin());
    } else {
      const auto [known, is_new] = hashed.try_emplace({entry.segments, entry.index});
      if (is_new) known->second = sha256(entry.bytes());
      found = known->second;
    }
    if (!std::equal(found.begin(), found.end(), named->second)) {
      errors->add(
          Error::InvalidExternalData,
          "\"%.*s\" in %s is not the data that the program was written with (SHA-256 %s..., "
          "expected %s...). Give the .ptd file that was written with it; "
          "pteron.update_weights writes a program for other weights, and "
          "Verification.Minimal takes any",
          length_of(key), key.data(), file, hex(found.data()).c_str(), hex(named->second).c_str());
    }
  }
}

Error check_every_byte(Span<const uint8_t> file, const FileLayout& layout, const Segments& segments,
                       Error::Code code) {
  using ull = unsigned long long;
  PTERON_CHECK_OR_RETURN(layout.has_integrity_table, code,
                         "it has no digests, which Verification.Required asks for; it is not "
                         "written by pteron, or the table was removed");
  std::vector<Segments::Range> ranges;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments.range(i).nbytes > 0) ranges.push_back(segments.range(i));
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  uint64_t end = layout.flatbuffer.size();
  for (const Segments::Range& range : ranges) {
    PTERON_CHECK_OR_RETURN(range.offset >= end && is_zero(file, end, range.offset), code,
                           "bytes %llu to %llu, between segments, are not zero",
                           static_cast<ull>(end), static_cast<ull>(range.offset));
    end = range.offset + range.nbytes;
  }
  // An empty segment may begin after the last byte of the others.
  const uint64_t last = std::max(end, layout.has_segments ? layout.segments_end : 0);
  PTERON_CHECK_OR_RETURN(file.size() == last && is_zero(file, end, last), code,
                         "it has %zu bytes, of which %llu are the program's and its data's",
                         file.size(), static_cast<ull>(last));
  return Error::Ok;
}

Error verify_all(const std::vector<const Segments*>& files) {
  std::vector<std::pair<const Segments*, size_t>> all;
  for (const Segments* const segments : files) {
    for (size_t i = 0; i < segments->size(); ++i) all.emplace_back(segments, i);
  }
  const auto nbytes = [](const auto& segment) {
    return segment.first->range(segment.second).nbytes;
  };
  auto largest_first = all;
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&](const auto& a, const auto& b) { return nbytes(a) > nbytes(b); });
  std::atomic<size_t> next{0};
  const auto verify = [&] {
    for (size_t k = next++; k < all.size(); k = next++) {
      (void)largest_first[k].first->verify(largest_first[k].second);
    }
  };
  // Not worth a thread below a millisecond of hashing.
  constexpr uint64_t kWorthAThread = 1 << 20;
  const auto large =
      std::count_if(all.begin(), all.end(), [&](auto& x) { return nbytes(x) >= kWorthAThread; });
  std::vector<std::thread> threads;
  try {
    for (unsigned i = 1; i < std::min<size_t>(large, std::thread::hardware_concurrency()); ++i) {
      threads.emplace_back(verify);
    }
  } catch (const std::exception&) {  // no thread, or no memory: those that there are do it
  }
  verify();
  for (std::thread& thread : threads) thread.join();
  ErrorList errors;
  for (const auto& [segments, index] : all) errors.add(segments->verify(index));
  return errors.to_error("");
}

}  // namespace pteron
