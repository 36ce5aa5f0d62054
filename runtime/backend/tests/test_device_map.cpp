#include <gtest/gtest.h>

#include "pteron/runtime/backend/device_map.h"

namespace pteron {
namespace {

constexpr Device cuda(int8_t index) { return {DeviceType::CUDA, index}; }

TEST(DeviceMap, DevicesHaveNames) {
  EXPECT_EQ(*parse_device("cpu"), Device{});
  EXPECT_EQ(*parse_device("cuda"), cuda(0));
  EXPECT_EQ(*parse_device("cuda:12"), cuda(12));
  for (const char* wrong :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:128", "cuda 1", "CUDA"}) {
    const Result<Device> parsed = parse_device(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_EQ(parsed.error(), Error::InvalidArgument);
  }
}

TEST(DeviceMap, StandsForWhatWasAdded) {
  DeviceMap devices;
  EXPECT_EQ(devices[cuda(0)], cuda(0));
  ASSERT_TRUE(devices.add("cuda:0=cuda:3").ok());
  ASSERT_TRUE(devices.add(cuda(1), cuda(0)).ok());
  EXPECT_EQ(devices[cuda(0)], cuda(3));
  EXPECT_EQ(devices[cuda(1)], cuda(0));
  EXPECT_EQ(devices[cuda(2)], cuda(2));
  EXPECT_EQ(devices[Device{}], Device{});
  EXPECT_TRUE(devices.add("cuda=cuda:3").ok());  // the same again
}

TEST(DeviceMap, RefusesWhatCannotBe) {
  DeviceMap devices;
  ASSERT_TRUE(devices.add("cuda:0=cuda:1").ok());
  EXPECT_EQ(devices.add("cuda:0=cuda:2"), Error::InvalidArgument);
  EXPECT_EQ(devices.add("cuda:0=cpu"), Error::InvalidArgument);
  EXPECT_EQ(devices.add("cuda:0"), Error::InvalidArgument);
  EXPECT_EQ(devices.add("cuda:0=tpu:1"), Error::InvalidArgument);
  EXPECT_EQ(devices[cuda(0)], cuda(1));
}

}  // namespace
}  // namespace pteron
