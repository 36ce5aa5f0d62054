#include <gtest/gtest.h>

#include "pteron/backends/cpu/runtime/cpu_device.h"

namespace pteron::cpu {
namespace {

TEST(CpuDevice, RefusesCodeForAMachineThatNobodyNames) {
  aoti::Metadata metadata;
  const Error error = CpuDevice().check_machine(metadata);
  EXPECT_EQ(error, Error::InvalidProgram);
  EXPECT_NE(error.message().find("lower the model again"), std::string::npos) << error.message();
  metadata.isa = "x86-64";
  EXPECT_TRUE(CpuDevice().check_machine(metadata).ok());
}

}  // namespace
}  // namespace pteron::cpu
