#include <gtest/gtest.h>

#include "pteron/backends/cuda/runtime/cuda_device.h"

namespace pteron::cuda {
namespace {

TEST(CudaDevice, RefusesCodeForAGpuThatNobodyNames) {
  std::shared_ptr<void> shared;
  const Error error = CudaDevice(CudaSpecs(), &shared).check_machine(aoti::Metadata());
  EXPECT_EQ(error, Error::InvalidProgram);
  EXPECT_NE(error.message().find("lower the model again"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace pteron::cuda
