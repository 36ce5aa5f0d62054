#include "pteron/backends/cuda/runtime/caching_pool.h"

#include <cuda_runtime_api.h>

#include <set>
#include <utility>

#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/capture_mutex.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"

namespace pteron::cuda {
namespace {

constexpr size_t kMinBlock = 512;
constexpr unsigned char kRedzonePattern = 0xa5;

struct StreamPools {
  std::mutex mutex;
  std::map<std::pair<int, void*>, CachingPool*> pools;  // by device and stream
};

StreamPools& stream_pools() {
  static auto* pools =
      new StreamPools();  // never destroyed: storages may outlive static destructors
  return *pools;
}

struct AllPools {
  std::mutex mutex;
  std::set<CachingPool*> pools;
};

AllPools& all_pools() {
  static auto* pools = new AllPools();
  return *pools;
}

}  // namespace

struct CachingPool::Block {
  slim::Storage storage;  // must be first: destroy() finds the block through it
  CachingPool* pool = nullptr;
  char* base = nullptr;  // driver allocation, including redzones
  size_t size = 0;       // maximum payload
};

size_t pool_block_size(size_t nbytes) {
  if (nbytes <= kMinBlock) return kMinBlock;
  size_t power = kMinBlock;
  while (power <= (nbytes - 1) / 2) power *= 2;  // power < nbytes <= 2 * power
  const size_t step = power / 8 < kMinBlock ? kMinBlock : power / 8;
  return (nbytes + step - 1) / step * step;
}

CachingPool::CachingPool(int device, Options options) : device_(device), options_(options) {
  std::lock_guard<std::mutex> lock(all_pools().mutex);
  all_pools().pools.insert(this);
}

CachingPool::~CachingPool() {
  std::lock_guard<std::mutex> lock(all_pools().mutex);
  all_pools().pools.erase(this);
}

void CachingPool::trim_all() {
  const std::lock_guard<std::mutex> no_capture(capture_mutex());
  std::lock_guard<std::mutex> lock(all_pools().mutex);
  for (CachingPool* const pool : all_pools().pools) pool->trim();
}

CachingPool* CachingPool::create(int device, Options options) {
  return new CachingPool(device, options);
}

CachingPool& CachingPool::of_stream(int device, void* stream) {
  StreamPools& all = stream_pools();
  std::lock_guard<std::mutex> lock(all.mutex);
  CachingPool*& pool = all.pools[{device, stream}];
  if (pool == nullptr) pool = create(device);
  return *pool;
}

void CachingPool::trim_streams(int device) {
  StreamPools& all = stream_pools();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (auto& [key, pool] : all.pools) {
    if (key.first == device) pool->trim();
  }
}

Result<slim::StorageRef> CachingPool::allocate(size_t nbytes) {
  const size_t size = pool_block_size(nbytes);
  Block* block = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = options_.keeps_blocks ? cached_.lower_bound(size) : cached_.find(size);
    while (options_.keeps_blocks && found != cached_.end() && found->second.empty()) ++found;
    if (found != cached_.end() && !found->second.empty()) {
      block = found->second.back();
      found->second.pop_back();
      ++live_;
      in_use_ += block->size;
    }
  }
  if (block == nullptr) {
    PTERON_ASSIGN_OR_RETURN(block, make_block(size, nbytes));
  }
  block->storage.nbytes = nbytes;
  block->storage.references.store(1, std::memory_order_relaxed);
  if (options_.redzone_nbytes > 0) {
    if (Error error = paint_redzones(*block); !error.ok()) {
      destroy(&block->storage);
      return error;
    }
  }
  return slim::StorageRef(&block->storage);
}

Result<CachingPool::Block*> CachingPool::make_block(size_t size, size_t requested) {
  PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device_));
  const size_t total = size + 2 * options_.redzone_nbytes;
  void* base = nullptr;
  cudaError_t status = cudaMalloc(&base, total);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    trim();
    status = cudaMalloc(&base, total);
  }
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    size_t free_nbytes = 0, total_nbytes = 0;
    (void)cudaMemGetInfo(&free_nbytes, &total_nbytes);
    return make_error(Error::MemoryAllocationFailed,
                      "CUDA device %d has no %zu bytes for a tensor: %zu of %zu are free, this "
                      "model's intermediates hold %zu; run a smaller batch or fewer models at once",
                      device_, requested, free_nbytes, total_nbytes, in_use_nbytes());
  }
  PTERON_CUDA_RETURN_IF_ERROR(status, "allocating device memory");
  auto* block = new Block();
  block->pool = this;
  block->base = static_cast<char*>(base);
  block->size = size;
  block->storage.data = block->base + options_.redzone_nbytes;
  block->storage.device = Device{DeviceType::CUDA, static_cast<int8_t>(device_)};
  block->storage.destroy = &CachingPool::destroy;
  std::lock_guard<std::mutex> lock(mutex_);
  reserved_ += total;
  ++live_;
  in_use_ += size;
  return block;
}

void CachingPool::destroy(slim::Storage* storage) noexcept {
  auto* block = reinterpret_cast<Block*>(storage);
  CachingPool* pool = block->pool;
  const bool intact = pool->options_.redzone_nbytes == 0 || pool->redzones_intact(*block);
  bool last = false;
  {
    std::lock_guard<std::mutex> lock(pool->mutex_);
    if (!intact) ++pool->violations_;
    --pool->live_;
    pool->in_use_ -= block->size;
    pool->cached_[block->size].push_back(block);
    last = pool->released_ && pool->live_ == 0;
  }
  if (last) {
    pool->free_cached();
    delete pool;
  }
}

void CachingPool::free_cached() {
  std::map<size_t, std::vector<Block*>> cached;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    cached.swap(cached_);
  }
  if (cached.empty()) return;
  Result<slim::CudaGuard> guard = slim::CudaGuard::make(device_);
  for (auto& [size, blocks] : cached) {
    for (Block* block : blocks) {
      if (guard.ok()) (void)cudaFree(block->base);  // synchronizes the device
      std::lock_guard<std::mutex> lock(mutex_);
      reserved_ -= size + 2 * options_.redzone_nbytes;
      delete block;
    }
  }
}

void CachingPool::trim() {
  if (!options_.keeps_blocks) free_cached();
}

void CachingPool::release() {
  bool last = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    released_ = true;
    last = live_ == 0;
  }
  free_cached();
  if (last) delete this;
}

Error CachingPool::paint_redzones(const Block& block) const {
  PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device_));
  const size_t redzone = options_.redzone_nbytes;
  char* data = static_cast<char*>(block.storage.data);
  PTERON_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize(), "painting redzones");
  PTERON_CUDA_RETURN_IF_ERROR(cudaMemset(block.base, kRedzonePattern, redzone),
                              "painting redzones");
  // The second redzone starts right after the requested bytes.
  PTERON_CUDA_RETURN_IF_ERROR(cudaMemset(data + block.storage.nbytes, kRedzonePattern,
                                         block.size - block.storage.nbytes + redzone),
                              "painting redzones");
  PTERON_CUDA_RETURN_IF_ERROR(cudaDeviceSynchronize(), "painting redzones");
  return Error::Ok;
}

bool CachingPool::redzones_intact(const Block& block) const {
  Result<slim::CudaGuard> guard = slim::CudaGuard::make(device_);
  if (!guard.ok() || cudaDeviceSynchronize() != cudaSuccess) return false;
  const size_t redzone = options_.redzone_nbytes;
  const size_t behind = block.size - block.storage.nbytes + redzone;
  const char* data = static_cast<const char*>(block.storage.data);
  std::vector<unsigned char> bytes(redzone + behind);
  if (cudaMemcpy(bytes.data(), block.base, redzone, cudaMemcpyDeviceToHost) != cudaSuccess ||
      cudaMemcpy(bytes.data() + redzone, data + block.storage.nbytes, behind,
                 cudaMemcpyDeviceToHost) != cudaSuccess) {
    return false;
  }
  for (unsigned char byte : bytes) {
    if (byte != kRedzonePattern) return false;
  }
  return true;
}

size_t CachingPool::reserved_nbytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return reserved_;
}

size_t CachingPool::in_use_nbytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return in_use_;
}

size_t CachingPool::redzone_violations() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return violations_;
}

}  // namespace pteron::cuda
