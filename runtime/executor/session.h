// The state of a model between calls: its mutable buffers (a KV cache), by name.
//
//   std::shared_ptr<Session> session = program->new_session();
//   LoadMethodOptions options;
//   options.session = session;
//   auto prefill = program->load_method("prefill", options);
//   auto decode = program->load_method("decode", options);   // sees what prefill wrote
//   session->reset();                                        // a new conversation
//
// A method loaded into a session uses the session's mutable buffers, by fully qualified name, or
// adds them, zeroed or with their initial value. Methods that share a buffer must agree in its
// dtype, sizes, dim order, device and initial value. Two sessions share only the program. A method
// loaded without a session gets a new one.
//
// Threads: methods may be loaded into one session concurrently. Execution takes no lock: methods of
// one session must not execute (or reset) concurrently. Use several sessions for concurrency.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron {

class Program;

class Session final {
 public:
  // Use Program::new_session().
  explicit Session(std::shared_ptr<const Program> program);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The program whose methods may be loaded into this session.
  const Program& program() const { return *program_; }

  // Resets every buffer to its initial value. Must not be called while a method of the session
  // runs.
  Error reset();

  // Fully qualified names of the buffers of all methods loaded so far, sorted.
  std::vector<std::string> buffer_names() const;
  // A view of a buffer, valid as long as the session. NotFound lists the buffers.
  Result<Tensor> buffer(std::string_view name) const;
  // Copies into one what `value` holds, on whichever device, of the buffer's dtype, sizes and
  // strides; else InvalidArgument. Not while a method of the session runs.
  Error set_buffer(std::string_view name, const Tensor& value);
  // Another session with the buffers of this one and their values. Not while a method runs.
  Result<std::shared_ptr<Session>> copy() const;

 private:
  friend class Method;
  friend class MethodLoader;

  struct Buffer;

  // The buffer `name` with the layout of `tensor` (whose data pointer is ignored), created if
  // missing. `initial` is empty for zeros, otherwise tensor.nbytes() long and borrowed from the
  // program.
  Result<Buffer*> find_or_add(std::string_view name, const Tensor& tensor,
                              Span<const uint8_t> initial);
  // A new one, of zeros.
  Result<Buffer*> add(std::string_view name, const Tensor& tensor, Span<const uint8_t> initial);
  static Error reset(Buffer& buffer);
  static const Tensor& tensor(const Buffer& buffer);

  std::shared_ptr<const Program> program_;
  mutable ForkMutex mutex_;  // guards the map, not the bytes
  std::map<std::string, std::unique_ptr<Buffer>, std::less<>> buffers_;
};

}  // namespace pteron
