#include "pteron/backends/cpu/runtime/openmp/thread_count.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "pteron/runtime/platform/log.h"

namespace pteron::cpu::openmp {
namespace {

int count_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More processors than the set has room for.
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

int read_default() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (!text || !*text) return std::min(num_processors(), kMaxTeam);
  if (const int threads = parse_num_threads(text)) return threads;
  PTERON_LOG(Warning,
             "OMP_NUM_THREADS is \"%s\", expected a number from 1 to %d: using the number of "
             "processors, %d",
             text, kMaxTeam, num_processors());
  return std::min(num_processors(), kMaxTeam);
}

}  // namespace

int num_processors() {
  static const int count = count_processors();
  return count;
}

int default_threads() {
  static const int threads = read_default();
  return threads;
}

int parse_num_threads(const char* text) {
  errno = 0;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  while (*end == ' ' || *end == '\t') ++end;
  if (end == text || errno != 0 || (*end != '\0' && *end != ',')) return 0;
  return value >= 1 && value <= kMaxTeam ? static_cast<int>(value) : 0;
}

}  // namespace pteron::cpu::openmp
