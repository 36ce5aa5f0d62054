// The streams of devices as Python callers see them: a method's work goes to the caller's stream,
// like an operator of the library whose tensors it gets, and the host waits for nothing.
//
//   StreamOrder order;  // of a session
//   {
//     CallerStreams streams(devices, api, order);
//     throw_if_error(streams.begin(false));  // this thread's streams are now the caller's
//     method->execute();
//   }  // and now what they were before
//   throw_if_error(order.finish());  // before the host touches the session's state
//
// Methods of a session may be called on one stream after the other: what the last one put on its
// stream is waited for by the next one, on the device.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/device_allocator.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/python/dlpack.h"

namespace pteron::python {

// Where the work of a session stands on each device. One thread at a time.
class StreamOrder final {
 public:
  // Whether the last work on `device`, of which there was some, was on its default stream.
  bool is_on_default(Device device) const;
  // Work follows on `stream`, the calling thread's current one on `device`.
  Error enter(Device device, void* stream);
  // It has been put there.
  Error leave(Device device);
  // The default streams wait for all of it, and with them whatever the host waits for there.
  Error finish();

 private:
  struct LastWork {
    Device device;
    void* stream = nullptr;  // of the last work
    bool used = false;
    std::unique_ptr<DeviceEvent> event;  // behind it; only where it was not on the default stream
  };
  LastWork& last_work_on(Device device);

  std::vector<LastWork> last_work_;
};

// The caller's current streams of some devices, current on this thread for a scope.
class CallerStreams final {
 public:
  // `api` knows the caller's streams; null: the default ones. Both arguments outlive this object.
  CallerStreams(const std::vector<Device>& devices, const dlpack::ExchangeApi* api,
                StreamOrder& order)
      : devices_(devices), api_(api), order_(order) {}
  ~CallerStreams();
  CallerStreams(const CallerStreams&) = delete;
  CallerStreams& operator=(const CallerStreams&) = delete;

  // `after_default`: inputs came from a library that ordered them with the default stream. Needs
  // the GIL.
  Error begin(bool after_default);

 private:
  const std::vector<Device>& devices_;
  const dlpack::ExchangeApi* const api_;
  StreamOrder& order_;
  std::vector<std::pair<Device, void*>> before_;  // the thread's streams, where they were changed
};

}  // namespace pteron::python
