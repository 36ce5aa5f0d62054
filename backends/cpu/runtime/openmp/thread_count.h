// The default number of threads of a parallel region.
//
//   int threads = default_threads();
//
// OMP_NUM_THREADS (the first entry of a list), or else the number of cores that the process may
// use. The environment is read once. Thread-safe.
#pragma once

namespace pteron::cpu::openmp {

// Processors that this process may run on, or fewer by cgroup quota (1.5 counts as two); cached at
// the first call; at least 1.
int num_processors();
// Physical cores of these processors: hyper-threads share execution units.
int num_cores();

// OMP_NUM_THREADS, in 1..kMaxTeam, or num_cores() if it is unset or invalid.
int default_threads();
// Parses `text` by the rules above; 0 if invalid. For default_threads() and its test.
int parse_num_threads(const char* text);

// Maximum team size.
inline constexpr int kMaxTeam = 4096;

}  // namespace pteron::cpu::openmp
