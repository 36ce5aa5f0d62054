// A block of memory on one device, shared by tensors.
//
//   PTERON_ASSIGN_OR_RETURN(StorageRef storage, allocator->allocate(nbytes, device));
//   StorageRef alias = storage;               // one more owner, no copy
//
// Intrusively reference counted: the last owner calls `destroy`, which frees the bytes (if owned)
// and the Storage itself. The creator provides `destroy`, so each device uses its own allocator.
// Counting is thread-safe; access to the bytes is not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "pteron/runtime/core/device.h"

namespace pteron {

// Alignment of every allocation of the runtime.
inline constexpr size_t kStorageAlignment = 64;

struct Storage {
  void* data = nullptr;
  size_t nbytes = 0;
  Device device;
  std::atomic<uint32_t> references{1};
  // Called once, by the last owner, on any thread.
  void (*destroy)(Storage* storage) noexcept = nullptr;
  // Used by `destroy`.
  void* context = nullptr;
};

class StorageRef final {
 public:
  StorageRef() = default;
  // Takes ownership of the initial reference of `storage`.
  explicit StorageRef(Storage* storage) : storage_(storage) {}
  StorageRef(const StorageRef& other) : storage_(other.storage_) {
    if (storage_) storage_->references.fetch_add(1, std::memory_order_relaxed);
  }
  StorageRef(StorageRef&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  StorageRef& operator=(StorageRef other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StorageRef() {
    if (!storage_) return;
    // A sole owner needs no atomic read-modify-write.
    if (storage_->references.load(std::memory_order_acquire) == 1 ||
        storage_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      storage_->destroy(storage_);
    }
  }

  Storage* get() const { return storage_; }
  Storage* operator->() const { return storage_; }
  explicit operator bool() const { return storage_ != nullptr; }

 private:
  Storage* storage_ = nullptr;
};

}  // namespace pteron
