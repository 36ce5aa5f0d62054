// Guards, the current stream and raw memory, through the C ABI.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <thread>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/shims/shims.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda::testing {
namespace {

using namespace aoti;

TEST(CudaGuards, RefuseADeviceThatDoesNotExist) {
  const auto untouched = reinterpret_cast<CUDAGuardHandle>(uintptr_t{0x5});
  CUDAGuardHandle guard = untouched;
  EXPECT_EQ(ptrn_torch_create_cuda_guard(63, &guard), kAotiFailure);
  EXPECT_EQ(guard, untouched);
  EXPECT_NE(shim_error().find("63"), std::string::npos) << shim_error();
  CUDAStreamGuardHandle stream_guard = nullptr;
  EXPECT_EQ(ptrn_torch_create_cuda_stream_guard(nullptr, 64, &stream_guard), kAotiFailure);
  EXPECT_EQ(ptrn_torch_create_cuda_guard(0, nullptr), kAotiFailure);
  EXPECT_EQ(ptrn_torch_cuda_guard_set_index(nullptr, 0), kAotiFailure);
}

TEST(CudaGuards, TheDefaultStreamIsCurrentUntilAnotherIsSet) {
  void* stream = reinterpret_cast<void*>(uintptr_t{0x5});
  ASSERT_EQ(ptrn_torch_get_current_cuda_stream(0, &stream), kAotiSuccess);
  EXPECT_EQ(stream, nullptr);
  EXPECT_EQ(ptrn_torch_get_current_cuda_stream(0, nullptr), kAotiFailure);
}

TEST(CudaGuards, StreamsBelongToThreads) {
  auto* mine = reinterpret_cast<cudaStream_t>(uintptr_t{0x1234});
  ASSERT_TRUE(slim::set_current_cuda_stream(0, mine).ok());
  cudaStream_t theirs = mine;
  std::thread([&] { theirs = slim::current_cuda_stream(0); }).join();
  EXPECT_EQ(theirs, nullptr);
  EXPECT_EQ(slim::current_cuda_stream(0), mine);
  ASSERT_TRUE(slim::set_current_cuda_stream(0, nullptr).ok());
  EXPECT_FALSE(slim::set_current_cuda_stream(64, nullptr).ok());
}

TEST(CudaGuards, PutBackDeviceAndStream) {
  PTERON_REQUIRE_CUDA();
  const Stream stream;
  CUDAStreamGuardHandle guard = nullptr;
  ASSERT_EQ(ptrn_torch_create_cuda_stream_guard(stream.get(), 0, &guard), kAotiSuccess)
      << shim_error();
  void* current = nullptr;
  ASSERT_EQ(ptrn_torch_get_current_cuda_stream(0, &current), kAotiSuccess);
  EXPECT_EQ(current, stream.get());
  EXPECT_EQ(ptrn_torch_delete_cuda_stream_guard(guard), kAotiSuccess);
  EXPECT_EQ(slim::current_cuda_stream(0), nullptr);
  CUDAGuardHandle device_guard = nullptr;
  ASSERT_EQ(ptrn_torch_create_cuda_guard(0, &device_guard), kAotiSuccess) << shim_error();
  EXPECT_EQ(ptrn_torch_cuda_guard_set_index(device_guard, 0), kAotiSuccess);
  EXPECT_EQ(ptrn_torch_delete_cuda_guard(device_guard), kAotiSuccess);
}

TEST(CudaRawMemory, ComesAndGoes) {
  PTERON_REQUIRE_CUDA();
  void* data = nullptr;
  ASSERT_EQ(ptrn_torch_cuda_caching_allocator_raw_alloc(1000, &data), kAotiSuccess) << shim_error();
  EXPECT_NE(data, nullptr);
  EXPECT_EQ(cudaMemset(data, 1, 1000), cudaSuccess);
  EXPECT_EQ(ptrn_torch_cuda_caching_allocator_raw_delete(data), kAotiSuccess) << shim_error();
  ASSERT_EQ(ptrn_torch_cuda_caching_allocator_raw_alloc(0, &data), kAotiSuccess);
  EXPECT_EQ(data, nullptr);
}

}  // namespace
}  // namespace pteron::cuda::testing
