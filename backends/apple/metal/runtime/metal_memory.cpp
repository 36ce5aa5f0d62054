// Allocator for DeviceType::Metal. Host and device share the memory, so the host does the copies
// after synchronizing.
#include <cstring>
#include <memory>

#include "pteron/backends/apple/metal/runtime/gpu.h"
#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/core/strided_copy.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::metal {
namespace {

Error wait_for_device() {
  PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
  return gpu->wait();
}

class MetalMemory final : public DeviceAllocator {
 public:
  Result<StorageRef> allocate(size_t nbytes, Device device) override {
    PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
    auto storage = std::make_unique<Storage>();
    PTERON_ASSIGN_OR_RETURN(storage->data, gpu->allocate(nbytes > 0 ? nbytes : 1));
    storage->nbytes = nbytes;
    storage->device = device;
    storage->context = gpu;
    storage->destroy = [](Storage* self) noexcept {
      static_cast<Gpu*>(self->context)->release(self->data);
      delete self;
    };
    return StorageRef(storage.release());
  }

  Error copy(void* destination, Device, const void* source, Device, size_t nbytes, Wait) override {
    PTERON_RETURN_IF_ERROR(wait_for_device());
    std::memmove(destination, source, nbytes);
    return Error::Ok;
  }

  Error copy_strided(void* target, const int64_t* target_strides, const void* source,
                     const int64_t* source_strides, const int64_t* sizes, size_t dim,
                     size_t item_size, Device) override {
    PTERON_RETURN_IF_ERROR(wait_for_device());
    static constexpr char kZero[16] = {};
    static constexpr int64_t kNoStrides[kMaxTensorDims] = {};
    pteron::copy_strided(target, target_strides, source ? source : kZero,
                         source ? source_strides : kNoStrides, sizes, dim, item_size);
    return Error::Ok;
  }

  Error fill_zero(void* destination, size_t nbytes, Device, Wait) override {
    PTERON_RETURN_IF_ERROR(wait_for_device());
    std::memset(destination, 0, nbytes);
    return Error::Ok;
  }
};

[[maybe_unused]] const bool registered = [] {
  const Error error = register_device_allocator(DeviceType::Metal, std::make_unique<MetalMemory>());
  if (!error.ok()) PTERON_LOG(Warning, "Metal memory: %s", error.message().c_str());
  return error.ok();
}();

}  // namespace
}  // namespace pteron::metal
