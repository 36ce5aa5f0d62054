#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/core/strided_copy.h"
#include "pteron/runtime/core/tests/value_of.h"

namespace pteron::slim {
namespace {

constexpr Device kDevice{DeviceType::CUDA, 0};

// A device whose memory is the host's.
class FakeAllocator final : public DeviceAllocator {
 public:
  Result<StorageRef> allocate(size_t nbytes, Device device) override {
    PTERON_ASSIGN_OR_RETURN(StorageRef storage, allocate_storage(nbytes, Device{}));
    storage->device = device;
    return storage;
  }
  Error copy(void* destination, Device to, const void* source, Device from, size_t nbytes,
             Wait wait) override {
    EXPECT_TRUE(to == kDevice || from == kDevice);
    waits += wait == Wait::Yes;
    std::memcpy(destination, source, nbytes);
    return Error::Ok;
  }
  Error copy_strided(void* target, const int64_t* target_strides, const void* source,
                     const int64_t* source_strides, const int64_t* sizes, size_t dim,
                     size_t item_size, Device) override {
    const char zeros[16] = {0};
    const int64_t still[kMaxDims] = {0};
    pteron::copy_strided(target, target_strides, source ? source : zeros,
                         source ? source_strides : still, sizes, dim, item_size);
    return Error::Ok;
  }
  Error fill_zero(void* destination, size_t nbytes, Device, Wait) override {
    std::memset(destination, 0, nbytes);
    return Error::Ok;
  }
  int waits = 0;
};

FakeAllocator& fake() {
  static auto* const allocator = [] {
    auto made = std::make_unique<FakeAllocator>();
    FakeAllocator* const pointer = made.get();
    EXPECT_TRUE(register_device_allocator(DeviceType::CUDA, std::move(made)).ok());
    return pointer;
  }();
  return *allocator;
}

const std::vector<std::vector<int64_t>> kLayouts = {{3, 1}, {1, 2}, {8, 2}};

TensorPtr tensor_of(const std::vector<int64_t>& strides, Device device, float first) {
  const std::vector<int64_t> sizes = {2, 3};
  Result<TensorPtr> tensor = make_tensor(sizes, strides, DType::Float, device);
  EXPECT_TRUE(tensor.ok());
  for (int64_t i = 0; i < 6; ++i) {
    (*tensor)->data_as<float>()[i / 3 * strides[0] + i % 3 * strides[1]] =
        first + static_cast<float>(i);
  }
  return std::move(*tensor);
}

std::vector<float> elements(const SlimTensor& tensor) {
  std::vector<float> values;
  for (int64_t i = 0; i < 6; ++i) {
    values.push_back(tensor.data_as<float>()[i / 3 * tensor.stride(0) + i % 3 * tensor.stride(1)]);
  }
  return values;
}

TEST(TensorCopy, BetweenHostAndDeviceWithAnyStrides) {
  fake();
  for (const auto& from : kLayouts) {
    for (const auto& to : kLayouts) {
      for (const auto& [source_device, target_device] :
           {std::pair(Device{}, kDevice), {kDevice, Device{}}, {kDevice, kDevice}}) {
        const TensorPtr source = tensor_of(from, source_device, 1);
        const TensorPtr target = tensor_of(to, target_device, 10);
        ASSERT_TRUE(copy_tensor(*target, *source).ok());
        EXPECT_EQ(elements(*target), elements(*source));
      }
    }
  }
}

// As an output that the code computed in the caller's memory, in another order of dimensions.
TEST(TensorCopy, InPlaceWithOtherStrides) {
  fake();
  for (const Device device : {Device{}, kDevice}) {
    const TensorPtr source = tensor_of({1, 2}, device, 1);
    const std::vector<float> expected = elements(*source);
    const std::vector<int64_t> sizes = {2, 3}, strides = {3, 1};
    SlimTensor target;
    ASSERT_TRUE(target.set(source->storage(), sizes, strides, 0, DType::Float).ok());
    ASSERT_TRUE(copy_tensor(target, *source).ok());
    EXPECT_EQ(elements(target), expected);
  }
}

TEST(TensorCopy, WaitsForTheHostUnlessToldNotTo) {
  const TensorPtr host = tensor_of({3, 1}, Device{}, 1);
  const TensorPtr device = tensor_of({3, 1}, kDevice, 1), other = tensor_of({3, 1}, kDevice, 1);
  const int before = fake().waits;
  ASSERT_TRUE(copy_tensor(*other, *device).ok());
  ASSERT_TRUE(copy_tensor(*device, *host, true).ok());
  EXPECT_EQ(fake().waits, before);
  ASSERT_TRUE(copy_tensor(*host, *device).ok());
  ASSERT_TRUE(copy_tensor(*device, *host).ok());
  EXPECT_EQ(fake().waits, before + 2);
}

TEST(TensorCopy, DevicesConvertNothing) {
  fake();
  const TensorPtr device = tensor_of({3, 1}, kDevice, 1);
  const std::vector<int64_t> sizes = {2, 3};
  auto ints = value_of(make_tensor(sizes, DType::Int));
  EXPECT_EQ(copy_tensor(*device, *ints), Error::NotSupported);
}

TEST(ZeroTensor, OfAnyStridesOnAnyDevice) {
  fake();
  for (const auto& strides : kLayouts) {
    for (const Device device : {Device{}, kDevice}) {
      const TensorPtr tensor = tensor_of(strides, device, 1);
      ASSERT_TRUE(zero_tensor(*tensor).ok());
      EXPECT_EQ(elements(*tensor), std::vector<float>(6, 0));
    }
  }
}

}  // namespace
}  // namespace pteron::slim
