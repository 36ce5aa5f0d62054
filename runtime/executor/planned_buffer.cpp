#include "pteron/runtime/executor/planned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/platform/guard_pages.h"

namespace pteron {
namespace {

constexpr size_t kAlignment = 64;
// From this size on uses mmap, whose pages are zeroed on first access. With AddressSanitizer uses
// the heap, to detect overflows.
constexpr size_t kMappedNbytes = kAddressSanitizer ? SIZE_MAX : size_t{1} << 18;

// Null if there is none.
StorageRef allocate_cpu(size_t nbytes) {
  auto storage = std::make_unique<Storage>();
  storage->nbytes = nbytes;
  if (guard_pages() != GuardPages::kNone) {
    storage->data = guarded_allocate(nbytes);
    if (storage->data == nullptr) return {};
    storage->destroy = [](Storage* self) noexcept {
      guarded_free(self->data);
      delete self;
    };
  } else if (nbytes >= kMappedNbytes) {
    void* const pages = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return {};
    storage->data = pages;
    storage->destroy = [](Storage* self) noexcept {
      ::munmap(self->data, self->nbytes);
      delete self;
    };
  } else {
    if (::posix_memalign(&storage->data, kAlignment, nbytes) != 0) return {};
    std::memset(storage->data, 0, nbytes);
    storage->destroy = [](Storage* self) noexcept {
      std::free(self->data);
      delete self;
    };
  }
  return StorageRef(storage.release());
}

// Device memory. Allocators cache freed memory, so this memory, which lived as long as a method, is
// trimmed.
struct DeviceStorage final : Storage {
  DeviceStorage(StorageRef memory, Device of) : memory(std::move(memory)) {
    data = this->memory->data;
    nbytes = this->memory->nbytes;
    device = of;
    destroy = [](Storage* self) noexcept {
      const Device device = self->device;
      delete static_cast<DeviceStorage*>(self);
      find_device_allocator(device.type)->trim(device);
    };
  }

  const StorageRef memory;
};

}  // namespace

Result<PlannedBuffer> PlannedBuffer::allocate(size_t nbytes, Device device) {
  PlannedBuffer buffer;
  if (nbytes == 0) return buffer;
  if (device.type == DeviceType::CPU) {  // already zeroed by the OS
    buffer.storage_ = allocate_cpu(nbytes);
    PTERON_CHECK_OR_RETURN(buffer.storage_, Error::MemoryAllocationFailed,
                           "no %zu bytes of memory for planned tensors", nbytes);
    return buffer;
  }
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, device_allocator_of(device));
  PTERON_ASSIGN_OR_RETURN(StorageRef memory, allocator->allocate(nbytes, device));
  buffer.storage_ = StorageRef(new DeviceStorage(std::move(memory), device));
  PTERON_RETURN_IF_ERROR(allocator->fill_zero(buffer.data(), nbytes, device, Wait::Yes));
  return buffer;
}

Error copy_to_device(void* destination, Span<const uint8_t> source, Device device) {
  if (source.empty()) return Error::Ok;
  if (device.type == DeviceType::CPU) {
    std::memcpy(destination, source.data(), source.size());
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, device_allocator_of(device));
  return allocator->copy(destination, device, source.data(), Device{}, source.size(), Wait::Yes);
}

Error copy_within_device(void* destination, const void* source, size_t nbytes, Device device) {
  if (nbytes == 0 || destination == source) return Error::Ok;
  if (device.type == DeviceType::CPU) {
    std::memmove(destination, source, nbytes);
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, device_allocator_of(device));
  return allocator->copy(destination, device, source, device, nbytes, Wait::Yes);
}

Error fill_zero(void* destination, size_t nbytes, Device device) {
  if (nbytes == 0) return Error::Ok;
  if (device.type == DeviceType::CPU) {
    std::memset(destination, 0, nbytes);
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, device_allocator_of(device));
  return allocator->fill_zero(destination, nbytes, device, Wait::Yes);
}

}  // namespace pteron
