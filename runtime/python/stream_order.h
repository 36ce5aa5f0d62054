// Runs methods on the Python caller's streams, like an operator of the caller's tensor library,
// without blocking the host.
//
//   StreamOrder order;  // of a session
//   {
//     CallerStreams streams(devices, api, order);
//     throw_if_error(streams.begin(false));  // uses the caller's streams on this thread
//     method->execute();
//   }  // restores them
//   throw_if_error(order.finish());  // before the host accesses the session's state
//
// Methods of a session may be called on different streams: the next call waits on the device for
// the previous one's work.
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

// The last work of a session on each device. Not thread-safe.
class StreamOrder final {
 public:
  // Whether there was work on `device` and the last was on its default stream.
  bool is_on_default(Device device) const;
  // Called before work on `stream`, the calling thread's current stream of `device`.
  Error enter(Device device, void* stream);
  // Called after the work was queued.
  Error leave(Device device);
  // Makes the default streams wait for all work.
  Error finish();

 private:
  struct LastWork {
    Device device;
    void* stream = nullptr;  // of the last work
    bool used = false;
    std::unique_ptr<DeviceEvent> event;  // event after it, unless it was on the default stream
  };
  LastWork& last_work_on(Device device);

  std::vector<LastWork> last_work_;
};

// Makes the caller's current streams of some devices current on this thread for a scope.
class CallerStreams final {
 public:
  // `api` provides the caller's streams; null: the default streams. Both arguments outlive this
  // object.
  CallerStreams(const std::vector<Device>& devices, const dlpack::ExchangeApi* api,
                StreamOrder& order)
      : devices_(devices), api_(api), order_(order) {}
  ~CallerStreams();
  CallerStreams(const CallerStreams&) = delete;
  CallerStreams& operator=(const CallerStreams&) = delete;

  // `after_default`: inputs are ordered with the default stream. Needs the GIL.
  Error begin(bool after_default);

 private:
  const std::vector<Device>& devices_;
  const dlpack::ExchangeApi* const api_;
  StreamOrder& order_;
  std::vector<std::pair<Device, void*>> before_;  // the thread's previous streams, if changed
};

}  // namespace pteron::python
