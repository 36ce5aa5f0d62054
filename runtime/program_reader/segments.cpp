#include "pteron/runtime/program_reader/segments.h"

#include <cstring>
#include <utility>

#include "pteron/runtime/platform/sha256.h"

namespace pteron {

Segments::Segments(Span<const uint8_t> file, std::vector<Range> ranges, const uint8_t* digests,
                   std::string file_name)
    : file_(file),
      ranges_(std::move(ranges)),
      digests_(digests),
      file_name_(std::move(file_name)),
      verdicts_(digests ? new Verdict[ranges_.size()] : nullptr) {}

Error Segments::verify(size_t index) const {
  if (!digests_) return Error::Ok;
  Verdict& verdict = verdicts_[index];
  std::call_once(verdict.once, [&] {
    const Sha256Digest found = sha256(bytes(index));
    verdict.good = std::memcmp(found.data(), digests_ + 32 * index, found.size()) == 0;
  });
  PTERON_CHECK_OR_RETURN(
      verdict.good, Error::InvalidProgram,
      "%s: segment %zu (%llu bytes at %llu) differs from its digest; the file is "
      "damaged, write it again",
      file_name_.c_str(), index, static_cast<unsigned long long>(ranges_[index].nbytes),
      static_cast<unsigned long long>(ranges_[index].offset));
  return Error::Ok;
}

std::string Segments::digest(size_t index) const {
  if (!digests_) return "";
  Sha256Digest digest;
  std::memcpy(digest.data(), digests_ + 32 * index, digest.size());
  return to_hex(digest);
}

}  // namespace pteron
