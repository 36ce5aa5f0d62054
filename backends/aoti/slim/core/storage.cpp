#include "pteron/backends/aoti/slim/core/storage.h"

#include <new>

#include "pteron/backends/aoti/slim/core/caching_allocator.h"
#include "pteron/runtime/core/device_allocator.h"

namespace pteron::slim {
namespace {

// Storage and bytes are one block: the Storage header, then the bytes at the next aligned address.
struct CpuStorage {
  Storage storage;
  uint32_t size_class;
};
static_assert(sizeof(CpuStorage) <= kStorageAlignment);

void destroy_cpu_storage(Storage* storage) noexcept {
  auto* cpu = reinterpret_cast<CpuStorage*>(storage);
  const CachedBlock block{cpu, cpu->size_class};
  cpu->~CpuStorage();
  cached_free(block);
}

Result<Storage*> new_cpu_storage(size_t nbytes) {
  size_t total = 0;
  if (__builtin_add_overflow(nbytes, kStorageAlignment, &total)) {
    return make_error(Error::MemoryAllocationFailed, "no memory for %zu bytes", nbytes);
  }
  CachedBlock block;
  try {
    block = cached_allocate(total);
  } catch (const std::bad_alloc&) {
    return make_error(Error::MemoryAllocationFailed, "no memory for %zu bytes", nbytes);
  }
  auto* cpu = new (block.data) CpuStorage;
  cpu->size_class = block.size_class;
  cpu->storage.destroy = destroy_cpu_storage;
  return &cpu->storage;
}

thread_local StorageSource* storage_source = nullptr;

}  // namespace

void set_storage_source(StorageSource* source) { storage_source = source; }

Result<StorageRef> allocate_storage(size_t nbytes, Device device) {
  if (device.type != DeviceType::CPU) {
    PTERON_ASSIGN_OR_RETURN(DeviceAllocator* const allocator, device_allocator_of(device));
    return allocator->allocate(nbytes, device);
  }
  StorageSource* const source = storage_source;
  if (__builtin_expect(source != nullptr, 0)) {
    if (StorageRef storage = source->take(nbytes)) return storage;
  }
  PTERON_ASSIGN_OR_RETURN(Storage * storage, new_cpu_storage(nbytes));
  storage->data = reinterpret_cast<char*>(storage) + kStorageAlignment;
  storage->nbytes = nbytes;
  if (__builtin_expect(source != nullptr, 0)) source->note(storage->data);
  return StorageRef(storage);
}

Result<StorageRef> borrow_storage(void* data, size_t nbytes, Device device) {
  PTERON_ASSIGN_OR_RETURN(Storage * storage, new_cpu_storage(0));
  storage->data = data;
  storage->nbytes = nbytes;
  storage->device = device;
  return StorageRef(storage);
}

}  // namespace pteron::slim
