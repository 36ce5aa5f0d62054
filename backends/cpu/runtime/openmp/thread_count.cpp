#include "pteron/backends/cpu/runtime/openmp/thread_count.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include "pteron/backends/cpu/runtime/openmp/cpu_quota.h"
#include "pteron/runtime/platform/fork_mutex.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::cpu::openmp {
namespace {

int count_processors() {
  cpu_set_t set;
  // On failure there are more processors than the set can hold.
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0
                          ? CPU_COUNT(&set)
                          : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int quota = cpu_quota();
  return std::max(1, quota > 0 ? std::min(allowed, quota) : allowed);
}

// A processor's topology id; -1 if unknown.
int topology(int processor, const char* what) {
  char path[96];
  std::snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", processor, what);
  std::FILE* const file = std::fopen(path, "re");
  if (!file) return -1;
  int number = -1;
  if (std::fscanf(file, "%d", &number) != 1) number = -1;
  std::fclose(file);
  return number;
}

int count_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return num_processors();
  std::set<std::pair<int, int>> cores;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &set)) continue;
    const int core = topology(processor, "core_id");
    if (core < 0) return num_processors();
    cores.emplace(topology(processor, "physical_package_id"), core);
  }
  return std::clamp(static_cast<int>(cores.size()), 1, num_processors());
}

int read_default() {
  const int cores = std::min(num_cores(), kMaxTeam);
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (!text || !*text) return cores;
  if (const int threads = parse_num_threads(text)) return threads;
  PTERON_LOG(Warning,
             "OMP_NUM_THREADS is \"%s\", expected a number from 1 to %d: using the number of "
             "cores, %d",
             text, kMaxTeam, cores);
  return cores;
}

}  // namespace

int num_processors() {
  static Once<int> count;
  return count.get(count_processors);
}

int num_cores() {
  static Once<int> count;
  return count.get(count_cores);
}

int default_threads() {
  static Once<int> threads;
  return threads.get(read_default);
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
