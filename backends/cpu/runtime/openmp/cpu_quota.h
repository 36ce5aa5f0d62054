// What control groups leave a process of its processors' time.
#pragma once

#include <string>

namespace pteron::cpu::openmp {

// Processors' worth of time, rounded up: the least quota of this process's group and those above it
// (cgroup v1 cpu.cfs_quota_us, v2 cpu.max) as far as they are mounted. 0: no limit. `root` stands
// before all paths that are read.
int cpu_quota(const std::string& root = "");

}  // namespace pteron::cpu::openmp
