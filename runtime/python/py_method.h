// The Python object of a loaded method: the hot path of the binding.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/profile.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/runtime/python/export_tensor.h"
#include "pteron/runtime/python/import_tensor.h"
#include "pteron/runtime/python/python_object.h"
#include "pteron/runtime/python/stream_order.h"

namespace pteron::python {

// A session and a lock that serializes its methods. C++ callers are responsible for that
// themselves; Python code must not be able to cause a data race.
class PySession final : public std::enable_shared_from_this<PySession> {
 public:
  explicit PySession(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  const std::shared_ptr<Session>& session() const { return session_; }

  void reset();
  std::vector<std::string> buffer_names() const { return session_->buffer_names(); }
  // A copy.
  Object buffer(const std::string& name);
  void set_buffer(const std::string& name, PyObject* value);
  std::shared_ptr<PySession> copy();
  // Only while a Guard is held.
  StreamOrder& order() { return order_; }

  // Locks the session for one thread. Releases the GIL while waiting. Throws InvalidState if the
  // thread holds it already, or another held it when this process was forked.
  class Guard final {
   public:
    // TimedOut after `seconds`. Throws what a signal handler raises meanwhile.
    explicit Guard(PySession& session, double seconds = std::numeric_limits<double>::infinity());
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    PySession& session_;
  };

 private:
  std::shared_ptr<Session> session_;
  StreamOrder order_;
  std::timed_mutex mutex_;
  uint32_t generation_ = 0;  // of the process that locked it last
  std::atomic<std::thread::id> owner_{};
};

class PyMethod final {
 public:
  PyMethod(std::unique_ptr<Method> method, std::shared_ptr<PySession> session);
  ~PyMethod();

  // The class as Python sees it. Borrowed; throws.
  static PyTypeObject* type();

  // Flat inputs to a list of flat outputs. Callable from any thread; calls into one session are
  // serialized.
  Object execute(PyObject* inputs);
  // The same with a tuple: flat inputs, a timeout in seconds, and None or a list with the caller's
  // tensor or None for each output.
  Object execute_with(PyObject* arguments);
  // Executes with a tuple: flat inputs, and a list to which the profile's JSON is appended, also
  // before an exception.
  Object profile(PyObject* inputs_and_list);
  // Returns whether a call was cancelled. Callable from any thread during a call.
  Object cancel();
  // None; inputs as above.
  Object prepare(PyObject* inputs);
  // None.
  Object reset_state();
  Object meta() const;

 private:
  // How an output is returned.
  enum class OutputMode {
    Copy,    // copied from the method's memory
    Direct,  // the delegate writes into the returned tensor
  };
  enum class Purpose { Execute, Prepare };
  struct Input {
    ImportedTensor tensor;
    Object scalar;           // keeps a string alive
    Object given, copy;      // torch: the caller's tensor, detached, and a dense copy of it
    bool is_copied = false;  // the method uses a copy: `copy` or `staging`
    std::unique_ptr<std::byte[]> staging;  // a copy in the method's layout, reused by later calls
    size_t staging_nbytes = 0;
  };
  struct Output {
    OutputMode mode = OutputMode::Copy;
    std::unique_ptr<std::byte[]> memory;  // for an unplanned output that must be copied
    OwnedTensorPtr direct;
    OwnedTensorPtr on_device;  // like `memory`, on a device
    ImportedTensor into;       // the caller's tensor
    Object given;              // the same
    bool is_bound = false;     // the method writes it
  };

  Object run(PyObject* inputs, Purpose purpose, double timeout, PyObject* out = nullptr,
             Profile* profile = nullptr);
  void prepare_outputs();
  Error give_memory(size_t index);
  bool takes_memory(size_t index);
  void collect_devices();
  const dlpack::ExchangeApi* api_of_caller() const;
  bool has_foreign_tensor() const;
  void check_count(size_t found) const;
  void import_value(size_t index, PyObject* value);
  EValue import_scalar(size_t index, PyObject* value);
  void set_tensor(size_t index, PyObject* value);
  // Copies a torch tensor `value` into the layout of `result` with torch, on the method's stream.
  void* copy_with_torch(Input& input, PyObject* value, const Tensor& result);
  // Throws unless inputs that a run writes are writable, do not overlap themselves, and do not
  // overlap other inputs.
  void check_written_inputs() const;
  // Copies back what the run wrote to copies of inputs.
  void write_copies_back();
  EValue scalar_of_tensor(const ImportedTensor& tensor, const ValueMeta& expected) const;
  void import_inputs(PyObject* inputs);
  void import_outputs(PyObject* out);
  // Throws unless the caller's tensor can hold the output.
  void check_into(size_t index) const;
  // What is on a device and strided is copied with torch.
  void copy_into(size_t index, const TensorStyle& style);
  void release_values();
  TensorStyle output_style() const;
  Object output(size_t index, const TensorStyle& style);
  Object export_value(const EValue& value, const TensorStyle& style);

  std::unique_ptr<Method> method_;
  std::shared_ptr<PySession> session_;
  std::vector<Input> inputs_;
  std::vector<EValue> values_;
  std::vector<size_t> written_;  // inputs that a run changes in place
  std::vector<Output> outputs_;
  std::vector<Device> devices_;  // of inputs and outputs, other than the CPU
};

}  // namespace pteron::python
