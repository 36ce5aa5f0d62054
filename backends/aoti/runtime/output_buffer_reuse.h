// The memory of outputs, which a model's code may compute in while it runs.
//
//   reuse.offer(buffers, device);
//   slim::StorageRef storage = reuse.take(nbytes);    // a buffer of just so many bytes, or null:
//   if (!storage) reuse.note(data);                   // the caller found it other memory
//   reuse.withdraw(outputs);                          // what was taken stays with who took it
//
// The code asks for many pieces of memory of one size, and which will be the output shows at the
// end. Code asks in the same order at every run: the first request gets the output's buffer, and
// after a run in which the output came to lie elsewhere, the request that got that memory does. A
// wrong choice costs a copy and no more, since a buffer that is let go of is taken again only for
// what comes later (on the same stream, on a GPU).
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/runtime/output_buffer.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

class OutputBufferReuse final : public slim::StorageSource {
 public:
  OutputBufferReuse() = default;
  ~OutputBufferReuse() override;
  OutputBufferReuse(const OutputBufferReuse&) = delete;
  OutputBufferReuse& operator=(const OutputBufferReuse&) = delete;

  void offer(Span<const OutputBuffer> buffers, Device device);
  slim::StorageRef take(size_t nbytes) override;
  // Where the last request, which take() refused, was met.
  void note(const void* data) override;
  void withdraw(Span<slim::SlimTensor* const> outputs) noexcept;

 private:
  struct Buffer {
    slim::Storage storage;  // first: destroy() finds the buffer through it
    size_t output = 0;
    size_t requests = 0;  // of its size in this run
    size_t turn = 0;      // the request that gets it
    bool taken = false;
    bool abandoned = false;  // whoever lets go of it deletes it
  };
  static void destroy(slim::Storage* storage) noexcept;
  static void abandon(std::unique_ptr<Buffer> buffer);

  std::vector<std::unique_ptr<Buffer>> buffers_;
  size_t offered_ = 0;  // the first ones of buffers_
  bool noted_ = false;  // the last request is of some buffer's size
  size_t last_request_ = 0;
  std::vector<std::pair<const void*, size_t>> met_;  // requests of this run, by where
};

}  // namespace pteron::aoti
