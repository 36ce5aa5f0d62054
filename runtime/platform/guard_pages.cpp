#include "pteron/runtime/platform/guard_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace pteron {
namespace {

struct Mapping {
  void* pages;
  size_t nbytes;
};

std::mutex mutex;

// By the address of the block; never destroyed, as memory may be freed after static destruction.
std::unordered_map<void*, Mapping>& mappings() {
  static auto* const known = new std::unordered_map<void*, Mapping>;
  return *known;
}

}  // namespace

GuardPages guard_pages() {
  static const GuardPages wanted = [] {
    const char* const value = std::getenv("PTERON_GUARD_PAGES");
    if (value == nullptr) return GuardPages::kNone;
    if (std::string_view(value) == "begin") return GuardPages::kBegin;
    return std::string_view(value) == "end" ? GuardPages::kEnd : GuardPages::kNone;
  }();
  return wanted;
}

void* guarded_allocate(size_t nbytes) {
  if constexpr (kAddressSanitizer) return std::calloc(1, nbytes);
  constexpr size_t kAlignment = 16;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (nbytes > SIZE_MAX / 2) return nullptr;
  const size_t aligned = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t room = (aligned + page - 1) / page * page;
  const Mapping mapping{::mmap(nullptr, room + 2 * page, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                        room + 2 * page};
  if (mapping.pages == MAP_FAILED) return nullptr;
  uint8_t* const begin = static_cast<uint8_t*>(mapping.pages) + page;
  if (room > 0 && ::mprotect(begin, room, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(mapping.pages, mapping.nbytes);
    return nullptr;
  }
  void* const data = guard_pages() == GuardPages::kBegin ? begin : begin + room - aligned;
  const std::lock_guard<std::mutex> lock(mutex);
  mappings()[data] = mapping;
  return data;
}

void guarded_free(void* data) noexcept {
  if constexpr (kAddressSanitizer) return std::free(data);
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = mappings().find(data);
  if (found == mappings().end()) return;
  ::munmap(found->second.pages, found->second.nbytes);
  mappings().erase(found);
}

}  // namespace pteron
