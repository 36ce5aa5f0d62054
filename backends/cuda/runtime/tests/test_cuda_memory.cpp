#include <gtest/gtest.h>

#include <vector>

#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cuda/runtime/testing/cuda_test.h"
#include "pteron/runtime/core/device_allocator.h"

namespace pteron::cuda {
namespace {

using slim::DType;
using slim::TensorPtr;
using testing::HostTensor;
using testing::poisoned;
using testing::to_device;
using testing::to_host;

TensorPtr on_host(const HostTensor& numbers, std::vector<int64_t> strides) {
  Result<TensorPtr> tensor = slim::make_tensor(numbers.sizes, strides, DType::Float, Device{});
  EXPECT_TRUE(tensor.ok());
  for (int64_t i = 0; i < numbers.sizes[0]; ++i) {
    for (int64_t j = 0; j < numbers.sizes[1]; ++j) {
      (*tensor)->data_as<float>()[i * strides[0] + j * strides[1]] =
          static_cast<float>(numbers.values[static_cast<size_t>(i * numbers.sizes[1] + j)]);
    }
  }
  return std::move(*tensor);
}

TEST(CudaMemory, IsRegistered) { EXPECT_NE(find_device_allocator(DeviceType::CUDA), nullptr); }

TEST(CudaMemory, CopiesBetweenHostAndDeviceWithAnyStrides) {
  PTERON_REQUIRE_CUDA();
  const HostTensor numbers = testing::round_to(HostTensor::random({5, 7}, 1), DType::Float);
  const std::vector<std::vector<int64_t>> layouts = {{7, 1}, {1, 5}, {16, 2}};
  for (const auto& host_strides : layouts) {
    for (const auto& device_strides : layouts) {
      TensorPtr host = on_host(numbers, host_strides);
      TensorPtr device = poisoned({5, 7}, DType::Float, device_strides);
      ASSERT_TRUE(slim::copy_tensor(*device, *host).ok());
      EXPECT_TRUE(testing::equal_to(to_host(*device), numbers));
      TensorPtr other = poisoned({5, 7}, DType::Float);
      ASSERT_TRUE(slim::copy_tensor(*other, *device).ok());
      EXPECT_TRUE(testing::equal_to(to_host(*other), numbers));
      TensorPtr back = on_host(HostTensor::zeros({5, 7}), host_strides);
      ASSERT_TRUE(slim::copy_tensor(*back, *device).ok());
      for (int64_t i = 0; i < 35; ++i) {
        const int64_t at = i / 7 * host_strides[0] + i % 7 * host_strides[1];
        EXPECT_EQ(back->data_as<float>()[at],
                  static_cast<float>(numbers.values[static_cast<size_t>(i)]));
      }
    }
  }
}

// Of more blocks than a GPU runs at once, so that some would read what others have written.
TEST(CudaMemory, CopiesInPlaceWithOtherStrides) {
  PTERON_REQUIRE_CUDA();
  const HostTensor numbers = testing::round_to(HostTensor::random({1500, 2500}, 1), DType::Float);
  const TensorPtr device = to_device(numbers, DType::Float, {1, 1500});
  const std::vector<int64_t> sizes = {1500, 2500}, strides = {2500, 1};
  slim::SlimTensor target;
  ASSERT_TRUE(target.set(device->storage(), sizes, strides, 0, DType::Float).ok());
  ASSERT_TRUE(slim::copy_tensor(target, *device).ok());
  EXPECT_TRUE(testing::equal_to(to_host(target), numbers));
}

TEST(CudaMemory, ZerosAnyStrides) {
  PTERON_REQUIRE_CUDA();
  for (const std::vector<int64_t>& strides : {std::vector<int64_t>{7, 1}, {1, 5}, {16, 2}}) {
    TensorPtr tensor = poisoned({5, 7}, DType::Float, strides);
    ASSERT_TRUE(slim::zero_tensor(*tensor).ok());
    EXPECT_TRUE(testing::equal_to(to_host(*tensor), HostTensor::zeros({5, 7})));
  }
}

TEST(CudaMemory, GivesPinnedHostMemory) {
  PTERON_REQUIRE_CUDA();
  Result<StorageRef> pinned = find_device_allocator(DeviceType::CUDA)->allocate_pinned(4096);
  ASSERT_TRUE(pinned.ok()) << pinned.error().message();
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, (*pinned)->data), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
}

TEST(CudaMemory, AllocatesCopiesAndFills) {
  PTERON_REQUIRE_CUDA();
  DeviceAllocator* allocator = find_device_allocator(DeviceType::CUDA);
  ASSERT_NE(allocator, nullptr);
  const Device device = testing::kCuda0;
  Result<StorageRef> first = allocator->allocate(1024, device);
  Result<StorageRef> second = allocator->allocate(1024, device);
  ASSERT_TRUE(first.ok() && second.ok());
  void *const a = (*first)->data, *const b = (*second)->data;
  std::vector<unsigned char> bytes(1024, 7), back(1024, 0);
  EXPECT_TRUE(allocator->copy(a, device, bytes.data(), Device{}, 1024, Wait::Yes).ok());
  EXPECT_TRUE(allocator->copy(b, device, a, device, 1024, Wait::No).ok());
  EXPECT_TRUE(allocator->copy(back.data(), Device{}, b, device, 1024, Wait::Yes).ok());
  EXPECT_EQ(back, bytes);
  EXPECT_TRUE(allocator->fill_zero(b, 1024, device, Wait::No).ok());
  EXPECT_TRUE(allocator->copy(back.data(), Device{}, b, device, 1024, Wait::Yes).ok());
  EXPECT_EQ(back, std::vector<unsigned char>(1024, 0));
}

}  // namespace
}  // namespace pteron::cuda
