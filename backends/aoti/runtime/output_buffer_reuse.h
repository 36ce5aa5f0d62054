// Lets a model's code allocate the memory of its outputs, so that they are computed in place.
//
//   reuse.offer(buffers, device);
//   slim::StorageRef storage = reuse.take(nbytes);    // a buffer of just so many bytes, or null:
//   if (!storage) reuse.note(data);                   // the caller found it other memory
//   reuse.withdraw(outputs);                          // what was taken stays with who took it
//
// The code makes many allocations of one size, and only at the end it is known which became the
// output. Code allocates in the same order in every run: at first the first request gets the
// output's buffer; after a run in which the output was elsewhere, the request that got that memory
// does. A wrong choice costs only a copy, since a freed buffer is reused only by later work (on the
// same stream, on a GPU).
//
// Not thread-safe.
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
  // Reports the address that the last request got after take() returned null.
  void note(const void* data) override;
  void withdraw(Span<slim::SlimTensor* const> outputs) noexcept;

 private:
  struct Buffer {
    slim::Storage storage;  // must be first: destroy() finds the buffer through it
    size_t output = 0;
    size_t requests = 0;  // number of requests of its size in this run
    size_t turn = 0;      // index of the request that gets it
    bool taken = false;
    bool abandoned = false;  // the last owner deletes it
  };
  static void destroy(slim::Storage* storage) noexcept;
  static void abandon(std::unique_ptr<Buffer> buffer);

  std::vector<std::unique_ptr<Buffer>> buffers_;
  size_t offered_ = 0;  // the first entries of buffers_ are in use
  bool noted_ = false;  // the last request has the size of a buffer
  size_t last_request_ = 0;
  std::vector<std::pair<const void*, size_t>> met_;  // requests of this run, by address
};

}  // namespace pteron::aoti
