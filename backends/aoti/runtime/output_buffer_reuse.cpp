#include "pteron/backends/aoti/runtime/output_buffer_reuse.h"

#include <algorithm>
#include <cstdint>

namespace pteron::aoti {

OutputBufferReuse::~OutputBufferReuse() {
  for (std::unique_ptr<Buffer>& buffer : buffers_) abandon(std::move(buffer));
}

void OutputBufferReuse::abandon(std::unique_ptr<Buffer> buffer) {
  if (!buffer || !buffer->taken) return;
  buffer->abandoned = true;
  (void)buffer.release();
}

void OutputBufferReuse::destroy(slim::Storage* storage) noexcept {
  auto* buffer = reinterpret_cast<Buffer*>(storage);
  buffer->taken = false;
  if (buffer->abandoned) delete buffer;
}

void OutputBufferReuse::offer(Span<const OutputBuffer> buffers, Device device) {
  if (buffers_.size() < buffers.size()) buffers_.resize(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::unique_ptr<Buffer>& buffer = buffers_[i];
    const size_t turn = buffer ? buffer->turn : 0;
    if (buffer && buffer->taken) abandon(std::move(buffer));  // kept beyond a run
    if (!buffer) buffer = std::make_unique<Buffer>();
    buffer->storage.data = buffers[i].data;
    buffer->storage.nbytes = buffers[i].nbytes;
    buffer->storage.device = device;
    buffer->storage.destroy = &destroy;
    buffer->output = buffers[i].output;
    buffer->requests = 0;
    buffer->turn = turn;
  }
  offered_ = buffers.size();
  met_.clear();
}

slim::StorageRef OutputBufferReuse::take(size_t nbytes) {
  Buffer* taken = nullptr;
  noted_ = false;
  for (size_t i = 0; i < offered_; ++i) {
    Buffer& buffer = *buffers_[i];
    if (buffer.storage.nbytes != nbytes) continue;
    noted_ = true;
    last_request_ = buffer.requests++;  // the same for all buffers of this size
    if (last_request_ == buffer.turn && !buffer.taken && !taken) taken = &buffer;
  }
  if (!taken) return slim::StorageRef();
  note(taken->storage.data);
  taken->taken = true;
  taken->storage.references.store(1, std::memory_order_relaxed);
  return slim::StorageRef(&taken->storage);
}

void OutputBufferReuse::note(const void* data) {
  if (noted_) met_.emplace_back(data, last_request_);
}

void OutputBufferReuse::withdraw(Span<slim::SlimTensor* const> outputs) noexcept {
  for (size_t i = 0; i < offered_; ++i) {
    Buffer& buffer = *buffers_[i];
    const slim::SlimTensor* output =
        buffer.output < outputs.size() ? outputs[buffer.output] : nullptr;
    if (!output || !output->is_defined()) continue;
    const void* const data = output->storage()->data;
    if (data == buffer.storage.data) continue;
    // The last allocation still owns this memory.
    const auto found = std::find_if(met_.rbegin(), met_.rend(),
                                    [data](const auto& request) { return request.first == data; });
    buffer.turn = found == met_.rend() ? SIZE_MAX : found->second;
  }
  offered_ = 0;
}

}  // namespace pteron::aoti
