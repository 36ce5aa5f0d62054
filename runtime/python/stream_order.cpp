#include "pteron/runtime/python/stream_order.h"

#include <Python.h>

namespace pteron::python {
namespace {

// An event on the calling thread's current stream of `device`; null without streams.
Result<std::unique_ptr<DeviceEvent>> event_now(Device device) {
  DeviceAllocator* const allocator = find_device_allocator(device.type);
  if (!allocator) return std::unique_ptr<DeviceEvent>();
  PTERON_ASSIGN_OR_RETURN(std::unique_ptr<DeviceEvent> event, allocator->make_event(device));
  if (event) PTERON_RETURN_IF_ERROR(event->record());
  return event;
}

}  // namespace

StreamOrder::LastWork& StreamOrder::last_work_on(Device device) {
  for (LastWork& last : last_work_) {
    if (last.device == device) return last;
  }
  last_work_.emplace_back();
  last_work_.back().device = device;
  return last_work_.back();
}

bool StreamOrder::is_on_default(Device device) const {
  for (const LastWork& last : last_work_) {
    if (last.device == device) return last.used && !last.stream;
  }
  return false;
}

Error StreamOrder::enter(Device device, void* stream) {
  LastWork& last = last_work_on(device);
  last.used = true;
  if (last.stream == stream) return Error::Ok;
  // CallerStreams has handled work on the default stream.
  if (last.stream && last.event) PTERON_RETURN_IF_ERROR(last.event->make_wait(stream));
  last.stream = stream;
  return Error::Ok;
}

Error StreamOrder::leave(Device device) {
  LastWork& last = last_work_on(device);
  if (!last.stream) return Error::Ok;
  if (last.event) return last.event->record();
  PTERON_ASSIGN_OR_RETURN(last.event, event_now(device));
  return Error::Ok;
}

Error StreamOrder::finish() {
  for (LastWork& last : last_work_) {
    if (last.stream && last.event) PTERON_RETURN_IF_ERROR(last.event->make_wait(nullptr));
    last.stream = nullptr;
  }
  return Error::Ok;
}

Error CallerStreams::begin(bool after_default) {
  for (const Device device : devices_) {
    void* stream = nullptr;
    if (api_ && api_->current_work_stream &&
        api_->current_work_stream(dlpack::kCuda, device.index, &stream) != 0) {
      PyErr_Clear();  // a build of the library without this device type
      stream = nullptr;
    }
    DeviceAllocator* const allocator = find_device_allocator(device.type);
    if (!allocator) continue;
    // Orders earlier work of this thread on the default stream before later work on another one.
    const bool leaves_default = stream && (after_default || order_.is_on_default(device));
    std::unique_ptr<DeviceEvent> event;
    if (leaves_default) {
      PTERON_ASSIGN_OR_RETURN(event, event_now(device));
    }
    PTERON_ASSIGN_OR_RETURN(void* const before, allocator->set_stream(stream, device));
    before_.emplace_back(device, before);
    if (event) PTERON_RETURN_IF_ERROR(event->make_wait(stream));
    PTERON_RETURN_IF_ERROR(order_.enter(device, stream));
  }
  return Error::Ok;
}

CallerStreams::~CallerStreams() {
  for (const auto& [device, before] : before_) {
    (void)order_.leave(device);
    (void)find_device_allocator(device.type)->set_stream(before, device);
  }
}

}  // namespace pteron::python
