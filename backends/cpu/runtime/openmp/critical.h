// Critical sections: one thread of the process at a time.
//
//   enter_critical(word);  ...  leave_critical(word);
//
// `word` is zero while nobody is inside, and is the section's name. Sections of different names may
// nest, up to kMaxCriticals deep. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace pteron::cpu::openmp {

inline constexpr int kMaxCriticals = 8;

void enter_critical(std::atomic<uint32_t>& word);
void leave_critical(std::atomic<uint32_t>& word);

// Leaves those that this thread is in, for a member that gives up.
void leave_all_criticals();

}  // namespace pteron::cpu::openmp
