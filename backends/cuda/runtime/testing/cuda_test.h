// Shared by tests of CUDA shims and kernels: device tensors from host values, poisoned outputs,
// float64 references, and a visible skip without a GPU.
//
//   TEST(Mm, Bf16) {
//     PTERON_REQUIRE_CUDA();
//     HostTensor a = HostTensor::random({16, 32}, 1);
//     TensorPtr x = to_device(a, DType::BFloat16);
//     TensorPtr out = poisoned({16, 8}, DType::BFloat16);
//     ...
//     expect_close(*out, matmul(round_to(a, DType::BFloat16), b), tolerance);
//   }
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/runtime/core/error.h"

// Skips a test, visibly, on a machine without a usable CUDA device.
#define PTERON_REQUIRE_CUDA()                                                           \
  do {                                                                                  \
    if (::pteron::cuda::device_count() == 0) GTEST_SKIP() << "there is no CUDA device"; \
  } while (false)

namespace pteron::cuda::testing {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

inline constexpr Device kCuda0{DeviceType::CUDA, 0};

// A stream of a test.
class Stream final {
 public:
  explicit Stream(int device = 0) : device_(device) {
    const auto guard = slim::CudaGuard::make(device);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~Stream() {
    const auto guard = slim::CudaGuard::make(device_);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  Result<slim::CudaStreamGuard> make_current() const {
    return slim::CudaStreamGuard::make(stream_, device_);
  }

  // Calls work() during a capture of this stream, which fails on synchronization. Returns the
  // number of recorded nodes.
  template <typename Work>
  size_t capture(cudaStreamCaptureMode mode, const Work& work) const {
    EXPECT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
    work();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    if (!graph) return 0;
    size_t nodes = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return nodes;
  }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

// Row-major values on the host.
struct HostTensor {
  std::vector<int64_t> sizes;
  std::vector<double> values;

  int64_t numel() const;
  // Normally distributed; deterministic by seed.
  static HostTensor random(std::vector<int64_t> sizes, uint64_t seed);
  static HostTensor zeros(std::vector<int64_t> sizes);
};

// The values rounded to `dtype`.
HostTensor round_to(const HostTensor& host, DType dtype);

// A tensor on `device` with these strides (row-major if empty). Memory between elements holds NaN
// (or a large integer), to detect reads of wrong addresses.
TensorPtr to_device(const HostTensor& host, DType dtype, std::vector<int64_t> strides = {},
                    Device device = kCuda0);

// An unwritten output: NaN or a large integer everywhere.
TensorPtr poisoned(std::vector<int64_t> sizes, DType dtype, std::vector<int64_t> strides = {},
                   Device device = kCuda0);

// A tensor that claims to be on the device but is not, for cases that must fail before any access.
TensorPtr pretend_cuda(std::vector<int64_t> sizes, DType dtype, std::vector<int64_t> strides = {},
                       int device = 0);

// Copies back; synchronizes.
HostTensor to_host(const SlimTensor& tensor);

// All bytes of the tensor's storage, to check that nothing else was written.
std::vector<unsigned char> storage_bytes(const SlimTensor& tensor);

// ||out - reference|| / ||reference|| <= tolerance, and no NaN.
::testing::AssertionResult close_to(const HostTensor& out, const HostTensor& reference,
                                    double tolerance);
// Every element equal.
::testing::AssertionResult equal_to(const HostTensor& out, const HostTensor& reference);

// Tolerated relative error of a matmul over `k` terms in `dtype`, with a margin of 4.
double gemm_tolerance(DType dtype, int64_t k);

// (batch, m, k) @ (batch, k, n), or without batch, in float64.
HostTensor matmul(const HostTensor& a, const HostTensor& b);

// Row-major strides.
std::vector<int64_t> contiguous(const std::vector<int64_t>& sizes);

}  // namespace pteron::cuda::testing
