#include <gtest/gtest.h>

#include <memory>

#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/core/tests/value_of.h"

namespace pteron {
namespace {

class NoMemory final : public DeviceAllocator {
 public:
  Result<StorageRef> allocate(size_t, Device) override { return Error::MemoryAllocationFailed; }
  Error copy(void*, Device, const void*, Device, size_t, Wait) override { return Error::Ok; }
  Error copy_strided(void*, const int64_t*, const void*, const int64_t*, const int64_t*, size_t,
                     size_t, Device) override {
    return Error::Ok;
  }
  Error fill_zero(void*, size_t, Device, Wait) override { return Error::Ok; }
};

TEST(DeviceAllocatorTest, OneForEachDeviceType) {
  EXPECT_EQ(find_device_allocator(DeviceType::CUDA), nullptr);
  EXPECT_EQ(device_allocator_of(Device{DeviceType::CUDA, 0}).error(), Error::NotFound);
  auto allocator = std::make_unique<NoMemory>();
  DeviceAllocator* const expected = allocator.get();
  ASSERT_TRUE(register_device_allocator(DeviceType::CUDA, std::move(allocator)).ok());
  EXPECT_EQ(find_device_allocator(DeviceType::CUDA), expected);

  EXPECT_EQ(register_device_allocator(DeviceType::CUDA, std::make_unique<NoMemory>()),
            Error::AlreadyLoaded);
  EXPECT_EQ(find_device_allocator(DeviceType::CUDA), expected);
}

TEST(DeviceAllocatorTest, RefusesTheCpuAndNothing) {
  EXPECT_EQ(register_device_allocator(DeviceType::CPU, std::make_unique<NoMemory>()),
            Error::InvalidArgument);
  EXPECT_EQ(register_device_allocator(DeviceType::CUDA, nullptr), Error::InvalidArgument);
  EXPECT_EQ(find_device_allocator(DeviceType::CPU), nullptr);
  EXPECT_EQ(find_device_allocator(static_cast<DeviceType>(7)), nullptr);
}

TEST(DeviceAllocatorTest, ADeviceMayHaveNoStreams) {
  NoMemory allocator;
  const Device device{DeviceType::CUDA, 0};
  int stream = 0;
  auto before = value_of(allocator.set_stream(&stream, device));
  EXPECT_EQ(before, nullptr);
  auto event = value_of(allocator.make_event(device));
  EXPECT_EQ(event, nullptr);
}

TEST(DeviceTest, Describes) {
  EXPECT_EQ(describe(Device{}), "cpu");
  EXPECT_EQ(describe(Device{DeviceType::CUDA, 1}), "cuda:1");
}

}  // namespace
}  // namespace pteron
