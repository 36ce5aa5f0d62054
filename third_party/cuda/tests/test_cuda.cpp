// The CUDA toolkit compiles a kernel, links cuBLAS, and what it makes runs where there is a GPU.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include "pteron/third_party/cuda/tests/scale.h"

namespace pteron::cuda_tests {
namespace {

bool has_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// Device memory with a copy of `values`; freed at the end of the scope.
class DeviceCopy {
 public:
  explicit DeviceCopy(const std::vector<float>& values) : nbytes_(values.size() * sizeof(float)) {
    EXPECT_EQ(cudaMalloc(&data_, nbytes_), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), nbytes_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceCopy() { cudaFree(data_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  float* data() { return static_cast<float*>(data_); }

  std::vector<float> read() const {
    std::vector<float> values(nbytes_ / sizeof(float));
    EXPECT_EQ(cudaMemcpy(values.data(), data_, nbytes_, cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  void* data_ = nullptr;
  size_t nbytes_;
};

TEST(Cuda, RuntimeIsTheToolkits) {
  int version = 0;
  ASSERT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 13000);
}

TEST(Cuda, KernelScales) {
  if (!has_device()) {
    GTEST_SKIP() << "no CUDA device";
  }
  DeviceCopy x({1, 2, 3});
  ASSERT_EQ(scale(x.data(), 3, 2.0F, nullptr), cudaSuccess);
  EXPECT_EQ(x.read(), (std::vector<float>{2, 4, 6}));
}

TEST(Cuda, CublasMultiplies) {
  if (!has_device()) {
    GTEST_SKIP() << "no CUDA device";
  }
  DeviceCopy x({1, 2, 3});
  DeviceCopy y({4, 5, 6});
  float result = 0;
  ASSERT_TRUE(dot(x.data(), y.data(), 3, &result));
  EXPECT_EQ(result, 32.0F);
}

}  // namespace
}  // namespace pteron::cuda_tests
