#include "pteron/runtime/executor/planned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "pteron/runtime/core/device_allocator.h"

namespace pteron {
namespace {

constexpr size_t kAlignment = 64;
// From here on pages of its own, which the system zeroes when they are touched.
constexpr size_t kMappedNbytes = size_t{1} << 18;

Result<DeviceAllocator*> allocator_of(Device device) {
  DeviceAllocator* const allocator = find_device_allocator(device.type);
  PTERON_CHECK_OR_RETURN(allocator, Error::NotFound,
                         "no allocator for %s memory is registered; link the device's backend into "
                         "the program, or open its library",
                         describe(device).c_str());
  return allocator;
}

void* allocate_cpu(size_t nbytes) {
  if (nbytes >= kMappedNbytes) {
    void* const pages = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
  }
  const size_t rounded = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const block = std::aligned_alloc(kAlignment, rounded);
  if (block) std::memset(block, 0, rounded);
  return block;
}

}  // namespace

Result<PlannedBuffer> PlannedBuffer::allocate(size_t nbytes, Device device) {
  PlannedBuffer buffer;
  buffer.device_ = device;
  if (nbytes == 0) return buffer;
  void* data = nullptr;
  if (device.type == DeviceType::CPU) {
    data = allocate_cpu(nbytes);
    PTERON_CHECK_OR_RETURN(data, Error::MemoryAllocationFailed,
                           "no %zu bytes of memory for planned tensors", nbytes);
  } else {
    PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, allocator_of(device));
    PTERON_ASSIGN_OR_RETURN(data, allocator->allocate(nbytes, device));
  }
  buffer.data_ = static_cast<uint8_t*>(data);
  buffer.nbytes_ = nbytes;
  // The system gave zeros to the CPU; the destructor frees the memory if the device fails.
  if (device.type != DeviceType::CPU) {
    PTERON_RETURN_IF_ERROR(fill_zero(data, nbytes, device));
  }
  return buffer;
}

PlannedBuffer::~PlannedBuffer() {
  if (!data_) return;
  if (device_.type != DeviceType::CPU) {
    find_device_allocator(device_.type)->free(data_, device_);  // allocators are for ever
  } else if (nbytes_ >= kMappedNbytes) {
    ::munmap(data_, nbytes_);
  } else {
    std::free(data_);
  }
}

PlannedBuffer::PlannedBuffer(PlannedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      nbytes_(std::exchange(other.nbytes_, 0)),
      device_(other.device_) {}

PlannedBuffer& PlannedBuffer::operator=(PlannedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(nbytes_, other.nbytes_);
  std::swap(device_, other.device_);
  return *this;
}

Error copy_to_device(void* destination, Span<const uint8_t> source, Device device) {
  if (source.empty()) return Error::Ok;
  if (device.type == DeviceType::CPU) {
    std::memcpy(destination, source.data(), source.size());
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, allocator_of(device));
  return allocator->copy_from_host(destination, source.data(), source.size(), device);
}

Error copy_within_device(void* destination, const void* source, size_t nbytes, Device device) {
  if (nbytes == 0 || destination == source) return Error::Ok;
  if (device.type == DeviceType::CPU) {
    std::memmove(destination, source, nbytes);
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, allocator_of(device));
  return allocator->copy(destination, source, nbytes, device);
}

Error fill_zero(void* destination, size_t nbytes, Device device) {
  if (nbytes == 0) return Error::Ok;
  if (device.type == DeviceType::CPU) {
    std::memset(destination, 0, nbytes);
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, allocator_of(device));
  return allocator->fill_zero(destination, nbytes, device);
}

}  // namespace pteron
