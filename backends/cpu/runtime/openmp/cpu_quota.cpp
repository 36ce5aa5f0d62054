#include "pteron/backends/cpu/runtime/openmp/cpu_quota.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace pteron::cpu::openmp {
namespace {

bool has_cpu(const std::string& list) {
  return ("," + list + ",").find(",cpu,") != std::string::npos;
}

// The path of the process's cgroup in the v2 hierarchy, or in the v1 hierarchy of the cpu
// controller. Lines are ID:CONTROLLERS:PATH.
std::string path_of_group(const std::string& root, bool is_v2) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_v2 ? controllers.empty() : has_cpu(controllers)) return line.substr(second + 1);
  }
  return "/";
}

// Quota of one cgroup; infinite without a limit.
double quota_of(const std::string& folder, bool is_v2) {
  double quota = -1, period = -1;
  if (is_v2) {
    std::ifstream(folder + "/cpu.max") >> quota >> period;  // "max" is no number
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : INFINITY;
}

}  // namespace

int cpu_quota(const std::string& root) {
  double least = INFINITY;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // ID PARENT DEVICE ROOT MOUNT_POINT OPTIONS... - TYPE SOURCE OPTIONS
    std::istringstream before(line),
        after(line.substr(std::min(line.size(), line.find(" - ") + 3)));
    std::string skipped, group, folder, type, options;
    before >> skipped >> skipped >> skipped >> group >> folder;
    after >> type >> skipped >> options;
    const bool is_v2 = type == "cgroup2";
    if (!is_v2 && (type != "cgroup" || !has_cpu(options))) continue;
    // In a container the mount's root may be the container's cgroup.
    std::string path = path_of_group(root, is_v2);
    if (group == "/") group.clear();
    path = path.compare(0, group.size(), group) == 0 ? path.substr(group.size()) : "";
    for (;;) {
      least = std::min(least, quota_of(root + folder + path, is_v2));
      if (path.empty()) break;
      path.resize(std::min(path.size() - 1, path.rfind('/')));
    }
  }
  return std::isinf(least) ? 0 : static_cast<int>(std::ceil(std::min(least, 1e6)));
}

}  // namespace pteron::cpu::openmp
