// OpenMP critical sections.
//
//   enter_critical(word);  ...  leave_critical(word);
//
// `word` identifies the section and is zero while it is free. Different sections may nest, up to
// kMaxCriticals deep. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace pteron::cpu::openmp {

inline constexpr int kMaxCriticals = 8;

void enter_critical(std::atomic<uint32_t>& word);
void leave_critical(std::atomic<uint32_t>& word);

// Leaves all sections that this thread is in, for a failed member.
void leave_all_criticals();

}  // namespace pteron::cpu::openmp
