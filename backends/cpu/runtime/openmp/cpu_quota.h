// The CPU quota of cgroups.
#pragma once

#include <string>

namespace pteron::cpu::openmp {

// Number of processors, rounded up: the smallest quota of this process's cgroup and its ancestors
// (v1 cpu.cfs_quota_us, v2 cpu.max), as far as mounted. 0: no limit. `root` is a prefix for all
// paths that are read.
int cpu_quota(const std::string& root = "");

}  // namespace pteron::cpu::openmp
