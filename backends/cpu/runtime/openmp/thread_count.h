// How many threads a parallel region has when nobody says a number.
//
//   int threads = default_threads();
//
// OMP_NUM_THREADS (its first number, if it is a list), or else as many as this process may use
// processors. The environment is read once. Thread-safe.
#pragma once

namespace pteron::cpu::openmp {

// Processors that this process may run on, or fewer if control groups leave it less time (a quota of
// 1.5 is two); as it was at the first question; at least 1.
int num_processors();
// Cores that they belong to: threads of one core share what it computes with.
int num_cores();

// What OMP_NUM_THREADS says, in 1..kMaxTeam, or num_cores() where it is unset or no number.
int default_threads();
// The number in `text` by the rules above; 0 for none. For default_threads() and its test.
int parse_num_threads(const char* text);

// Members of the largest team.
inline constexpr int kMaxTeam = 4096;

}  // namespace pteron::cpu::openmp
