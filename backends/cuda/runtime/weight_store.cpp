#include "pteron/backends/cuda/runtime/weight_store.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "pteron/backends/aoti/slim/cuda/guard.h"
#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/runtime/platform/log.h"

namespace pteron::cuda {
namespace {

constexpr size_t kBufferNbytes = size_t{8} << 20;
constexpr size_t kAlignment = 256;  // also what cudaMalloc guarantees
// cudaMalloc rounds up to 2 MiB pages above 1 MiB, so weights share blocks.
constexpr size_t kBlockNbytes = size_t{32} << 20;

using Key = std::pair<int, Sha256Digest>;  // device, contents

size_t aligned(size_t nbytes) { return (nbytes + kAlignment - 1) / kAlignment * kAlignment; }

// Device memory with known contents.
struct Weight {
  Key key;
  std::shared_ptr<void> memory;  // of which `data` is a part
  void* data = nullptr;
  size_t nbytes = 0;
  ~Weight();
};

// All weights, and those that can be shared while in use.
class Store final {
 public:
  static Store& get() {
    static auto* store = new Store();  // never destroyed: weights may outlive static destructors
    return *store;
  }

  std::shared_ptr<Weight> find(const Key& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = weights_.find(key);
    return found == weights_.end() ? nullptr : found->second.lock();
  }

  void offer(const std::shared_ptr<Weight>& weight) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::weak_ptr<Weight>& entry = weights_[weight->key];
    if (entry.expired()) entry = weight;
  }

  void count(const Weight& weight) {
    std::lock_guard<std::mutex> lock(mutex_);
    WeightUse& use = use_[weight.key.first];
    ++use.count;
    use.nbytes += weight.nbytes;
  }

  WeightUse use(int device) {
    std::lock_guard<std::mutex> lock(mutex_);
    return use_[device];
  }

  // Called when the last owner of `weight` is gone; another weight may have replaced it meanwhile.
  void forget(const Weight& weight) {
    std::lock_guard<std::mutex> lock(mutex_);
    WeightUse& use = use_[weight.key.first];
    --use.count;
    use.nbytes -= weight.nbytes;
    auto found = weights_.find(weight.key);
    if (found != weights_.end() && found->second.expired()) weights_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<Weight>> weights_;
  std::map<int, WeightUse> use_;
};

Weight::~Weight() {
  if (data) Store::get().forget(*this);
}

// On the current device, which is `device`.
Result<std::shared_ptr<void>> allocate(int device, size_t nbytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, nbytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    size_t free_nbytes = 0, total_nbytes = 0;
    (void)cudaMemGetInfo(&free_nbytes, &total_nbytes);
    return make_error(Error::MemoryAllocationFailed,
                      "CUDA device %d has no %zu bytes for weights: %zu of %zu are free", device,
                      nbytes, free_nbytes, total_nbytes);
  }
  PTERON_CUDA_RETURN_IF_ERROR(status, "allocating memory for weights");
  return std::shared_ptr<void>(data, [device](void* memory) {
    Result<slim::CudaGuard> guard = slim::CudaGuard::make(device);
    if (guard.ok()) (void)cudaFree(memory);
  });
}

void let_go(slim::Storage* storage) noexcept {
  delete static_cast<std::shared_ptr<Weight>*>(storage->context);
  delete storage;
}

slim::StorageRef storage_of(std::shared_ptr<Weight> weight) {
  auto* storage = new slim::Storage();
  storage->data = weight->data;
  storage->nbytes = weight->nbytes;
  storage->device = Device{DeviceType::CUDA, static_cast<int8_t>(weight->key.first)};
  storage->destroy = &let_go;
  storage->context = new std::shared_ptr<Weight>(std::move(weight));
  return slim::StorageRef(storage);
}

// `nbytes` of `whole`, from `offset` on.
slim::StorageRef part_of(const slim::StorageRef& whole, size_t offset, size_t nbytes) {
  auto* storage = new slim::Storage();
  storage->data = static_cast<char*>(whole->data) + offset;
  storage->nbytes = nbytes;
  storage->device = whole->device;
  storage->destroy = [](slim::Storage* self) noexcept {
    delete static_cast<slim::StorageRef*>(self->context);
    delete self;
  };
  storage->context = new slim::StorageRef(whole);
  return slim::StorageRef(storage);
}

}  // namespace

WeightUse weight_use(int device) { return Store::get().use(device); }

struct WeightUpload::Added {
  std::shared_ptr<Weight> weight;
  Span<const uint8_t> bytes;
};

WeightUpload::WeightUpload(int device, size_t nbytes) : device_(device), expected_(nbytes) {}

Result<slim::StorageRef> WeightUpload::add(const Sha256Digest& digest, Span<const uint8_t> bytes) {
  const Key key(device_, digest);
  for (const Added& added : added_) {
    if (added.weight->key == key && added.bytes.size() == bytes.size() &&
        std::equal(bytes.begin(), bytes.end(), added.bytes.begin())) {
      return storage_of(added.weight);
    }
  }
  PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device_));
  PTERON_RETURN_IF_ERROR(start());
  const size_t expected = std::max(expected_, aligned(bytes.size()));
  expected_ = expected - aligned(bytes.size());
  if (std::shared_ptr<Weight> shared = Store::get().find(key)) {
    bool same = shared->nbytes == bytes.size();
    if (same) {
      PTERON_ASSIGN_OR_RETURN(same, holds(shared->data, bytes));
    }
    if (same) return storage_of(std::move(shared));
    PTERON_LOG(
        Warning,
        "two weights of digest %s differ, so that a file is damaged: load programs with full "
        "verification to find out which",
        to_hex(digest).c_str());
  }
  auto weight = std::make_shared<Weight>();
  weight->key = key;
  PTERON_ASSIGN_OR_RETURN(weight->data, place(bytes.size(), expected, &weight->memory));
  weight->nbytes = bytes.size();
  Store::get().count(*weight);
  added_.push_back({weight, bytes});  // before the copy, which must end before the memory is freed
  PTERON_RETURN_IF_ERROR(copy(weight->data, bytes));
  return storage_of(std::move(weight));
}

Result<std::vector<slim::StorageRef>> WeightUpload::add_together(
    Span<const Span<const uint8_t>> parts) {
  std::vector<slim::StorageRef> storages;
  if (parts.empty()) return storages;
  // In file order, independent of the order of the parts.
  std::map<std::pair<const uint8_t*, size_t>, size_t> offsets;
  for (const Span<const uint8_t>& part : parts) offsets[{part.data(), part.size()}] = 0;
  std::vector<uint8_t> bytes;
  for (auto& [part, offset] : offsets) {
    offset = bytes.size();
    bytes.insert(bytes.end(), part.first, part.first + part.second);
    bytes.resize(aligned(bytes.size()));
  }
  joined_.push_back(std::move(bytes));
  PTERON_ASSIGN_OR_RETURN(const slim::StorageRef whole,
                          add(sha256(joined_.back()), joined_.back()));
  for (const Span<const uint8_t>& part : parts) {
    storages.push_back(part_of(whole, offsets[{part.data(), part.size()}], part.size()));
  }
  return storages;
}

Result<void*> WeightUpload::place(size_t nbytes, size_t expected, std::shared_ptr<void>* memory) {
  nbytes = std::max(aligned(nbytes), kAlignment);
  if (nbytes > block_nbytes_ - block_used_) {
    const size_t wanted = std::max(nbytes, std::min(expected, kBlockNbytes));
    PTERON_ASSIGN_OR_RETURN(*memory, allocate(device_, wanted));
    // The remainder of either block is used for the next weight.
    if (wanted - nbytes < block_nbytes_ - block_used_) return memory->get();
    block_ = *memory;
    block_nbytes_ = wanted;
    block_used_ = 0;
  }
  *memory = block_;
  void* data = static_cast<char*>(block_.get()) + block_used_;
  block_used_ += nbytes;
  return data;
}

Error WeightUpload::start() {
  if (stream_) return Error::Ok;
  PTERON_CUDA_RETURN_IF_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                              "creating a stream for weights");
  PTERON_CUDA_RETURN_IF_ERROR(cudaMallocHost(reinterpret_cast<void**>(&pinned_), 2 * kBufferNbytes),
                              "allocating pinned memory for weights");
  for (cudaEvent_t& event : read_) {
    PTERON_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                                "creating an event for weights");
  }
  return Error::Ok;
}

Error WeightUpload::copy(void* target, Span<const uint8_t> bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const size_t nbytes = std::min(kBufferNbytes, bytes.size() - done);
    char* buffer = pinned_ + static_cast<size_t>(next_) * kBufferNbytes;
    PTERON_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(read_[next_]), "copying a weight");
    std::memcpy(buffer, bytes.data() + done, nbytes);
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(static_cast<char*>(target) + done, buffer, nbytes,
                                                cudaMemcpyHostToDevice, stream_),
                                "copying a weight");
    PTERON_CUDA_RETURN_IF_ERROR(cudaEventRecord(read_[next_], stream_), "copying a weight");
    next_ = 1 - next_;
    done += nbytes;
  }
  return Error::Ok;
}

Result<bool> WeightUpload::holds(const void* weight, Span<const uint8_t> bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const size_t nbytes = std::min(kBufferNbytes, bytes.size() - done);
    PTERON_CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(pinned_, static_cast<const char*>(weight) + done,
                                                nbytes, cudaMemcpyDeviceToHost, stream_),
                                "comparing a weight");
    // Also waits for uploads that read the buffer.
    PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream_), "comparing a weight");
    if (std::memcmp(pinned_, bytes.data() + done, nbytes) != 0) return false;
    done += nbytes;
  }
  return true;
}

Error WeightUpload::finish() {
  if (stream_) {
    PTERON_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream_), "copying weights");
  }
  for (const Added& added : added_) Store::get().offer(added.weight);
  added_.clear();
  return Error::Ok;
}

WeightUpload::~WeightUpload() {
  if (!stream_) return;
  Result<slim::CudaGuard> guard = slim::CudaGuard::make(device_);
  if (!guard.ok()) return;
  (void)cudaStreamSynchronize(stream_);
  for (cudaEvent_t event : read_) {
    if (event) (void)cudaEventDestroy(event);
  }
  if (pinned_) (void)cudaFreeHost(pinned_);
  (void)cudaStreamDestroy(stream_);
}

}  // namespace pteron::cuda
