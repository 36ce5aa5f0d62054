#include "pteron/backends/apple/metal/runtime/metal_device.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "pteron/backends/apple/metal/runtime/gpu.h"
#include "pteron/runtime/core/device_allocator.h"

namespace pteron::metal {
namespace {

// Weights of a program on the device. A program's mapping outlives its delegates, so an address
// identifies the bytes as long as a delegate holds the copy.
Result<std::shared_ptr<StorageRef>> copy_of(Span<const uint8_t> bytes, Device device) {
  static std::mutex mutex;
  static std::map<std::pair<const uint8_t*, size_t>, std::weak_ptr<StorageRef>> copies;
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<StorageRef>& known = copies[{bytes.data(), bytes.size()}];
  if (std::shared_ptr<StorageRef> copy = known.lock()) return copy;
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, device_allocator_of(device));
  PTERON_ASSIGN_OR_RETURN(StorageRef memory, allocator->allocate(bytes.size(), device));
  PTERON_RETURN_IF_ERROR(
      allocator->copy(memory->data, device, bytes.data(), Device{}, bytes.size(), Wait::Yes));
  auto copy = std::make_shared<StorageRef>(std::move(memory));
  known = copy;
  return copy;
}

// A reference to it.
StorageRef share(std::shared_ptr<StorageRef> copy) {
  auto storage = std::make_unique<Storage>();
  storage->data = (*copy)->data;
  storage->nbytes = (*copy)->nbytes;
  storage->device = (*copy)->device;
  storage->context = new std::shared_ptr<StorageRef>(std::move(copy));
  storage->destroy = [](Storage* self) noexcept {
    delete static_cast<std::shared_ptr<StorageRef>*>(self->context);
    delete self;
  };
  return StorageRef(storage.release());
}

}  // namespace

Error MetalDevice::check_machine(const aoti::Metadata& metadata) {
  Result<Gpu*> gpu = find_gpu();
  if (!gpu.ok()) return gpu.take_error();
  PTERON_CHECK_OR_RETURN(metadata.platform.empty() || metadata.platform == kPlatform,
                         Error::DelegateInvalidCompatibility,
                         "the program's code is for %.*s and this is %s; lower the model with "
                         "MetalOptions(platform=...) "
                         "for this machine",
                         static_cast<int>(metadata.platform.size()), metadata.platform.data(),
                         kPlatform);
  return Error::Ok;
}

Result<std::vector<slim::TensorPtr>> MetalDevice::make_constants(
    Span<const aoti::ConstantInfo> constants, Span<const Span<const uint8_t>> bytes) {
  std::vector<slim::TensorPtr> tensors;
  for (size_t i = 0; i < constants.size(); ++i) {
    const aoti::ConstantInfo& constant = constants[i];
    PTERON_ASSIGN_OR_RETURN(std::shared_ptr<StorageRef> copy, copy_of(bytes[i], device()));
    slim::TensorPtr tensor(new slim::SlimTensor);
    PTERON_RETURN_IF_ERROR(tensor->set(share(std::move(copy)), constant.sizes, constant.strides,
                                       constant.storage_offset, constant.dtype));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace pteron::metal
