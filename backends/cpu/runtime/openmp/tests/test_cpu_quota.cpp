#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "pteron/backends/cpu/runtime/openmp/cpu_quota.h"

namespace pteron::cpu::openmp {
namespace {

class CpuQuota : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  // A line of mountinfo.
  static std::string mount(const std::string& group, const std::string& folder,
                           const std::string& type, const std::string& options) {
    return "32 31 0:29 " + group + " " + folder + " rw,nosuid shared:9 - " + type + " cgroup " +
           options + "\n";
  }
  int quota() const { return cpu_quota(root_); }

  const std::string root_ = ::testing::TempDir() + "pteron_cpu_quota";
};

TEST_F(CpuQuota, WithoutGroupsThereIsNone) {
  EXPECT_EQ(quota(), 0);
  write("/proc/self/cgroup", "0::/a\n");
  write("/proc/self/mountinfo", "22 1 254:0 / / rw - ext4 /dev/root rw\nnonsense\n");
  EXPECT_EQ(quota(), 0);
}

TEST_F(CpuQuota, Version2TakesTheLeastOfAllGroupsAbove) {
  write("/proc/self/cgroup", "0::/service/worker\n");
  write("/proc/self/mountinfo", mount("/", "/sys/fs/cgroup", "cgroup2", "rw,nsdelegate"));
  EXPECT_EQ(quota(), 0);
  write("/sys/fs/cgroup/service/worker/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 0);
  write("/sys/fs/cgroup/service/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 2);
  write("/sys/fs/cgroup/service/worker/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 1);
  write("/sys/fs/cgroup/service/worker/cpu.max", "800000 100000\n");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CpuQuota, Version1) {
  write("/proc/self/cgroup", "9:name=systemd:/x\n3:cpuset:/y\n1:cpuacct,cpu:/service\n0::/\n");
  write("/proc/self/mountinfo", mount("/", "/sys/fs/cgroup/cpuset", "cgroup", "rw,cpuset") +
                                    mount("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpuacct,cpu"));
  write("/sys/fs/cgroup/cpu/service/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu/service/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpuset/y/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpuset/y/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(quota(), 0);
  write("/sys/fs/cgroup/cpu/service/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(quota(), 3);
}

// The mount's root is the container's group, by which the process's is named or not.
TEST_F(CpuQuota, InContainers) {
  write("/proc/self/cgroup", "4:cpu:/docker/1f\n");
  write("/proc/self/mountinfo", mount("/docker/1f", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu"));
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(quota(), 2);
  write("/proc/self/cgroup", "4:cpu:/\n");
  EXPECT_EQ(quota(), 2);
  write("/proc/self/cgroup", "0::/../outside\n");
  write("/proc/self/mountinfo", mount("/", "/sys/fs/cgroup", "cgroup2", "rw"));
  write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 1);
}

}  // namespace
}  // namespace pteron::cpu::openmp
