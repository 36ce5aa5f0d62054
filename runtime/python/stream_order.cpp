#include "pteron/runtime/python/stream_order.h"

#include <Python.h>

namespace pteron::python {
namespace {

// Of the calling thread's current stream on `device` as it stands now; null where there are none.
Result<std::unique_ptr<DeviceEvent>> event_now(Device device) {
  DeviceAllocator* const allocator = find_device_allocator(device.type);
  if (!allocator) return std::unique_ptr<DeviceEvent>();
  PTERON_ASSIGN_OR_RETURN(std::unique_ptr<DeviceEvent> event, allocator->make_event(device));
  if (event) PTERON_RETURN_IF_ERROR(event->record());
  return event;
}

}  // namespace

StreamOrder::Place& StreamOrder::place_of(Device device) {
  for (Place& place : places_) {
    if (place.device == device) return place;
  }
  places_.emplace_back();
  places_.back().device = device;
  return places_.back();
}

bool StreamOrder::is_on_default(Device device) const {
  for (const Place& place : places_) {
    if (place.device == device) return place.used && !place.stream;
  }
  return false;
}

Error StreamOrder::enter(Device device, void* stream) {
  Place& place = place_of(device);
  place.used = true;
  if (place.stream == stream) return Error::Ok;
  // For what was on the default stream CallerStreams has seen to it.
  if (place.stream && place.event) PTERON_RETURN_IF_ERROR(place.event->make_wait(stream));
  place.stream = stream;
  return Error::Ok;
}

Error StreamOrder::leave(Device device) {
  Place& place = place_of(device);
  if (!place.stream) return Error::Ok;
  if (place.event) return place.event->record();
  PTERON_ASSIGN_OR_RETURN(place.event, event_now(device));
  return Error::Ok;
}

Error StreamOrder::finish() {
  for (Place& place : places_) {
    if (place.stream && place.event) PTERON_RETURN_IF_ERROR(place.event->make_wait(nullptr));
    place.stream = nullptr;
  }
  return Error::Ok;
}

Error CallerStreams::begin(bool after_default) {
  for (const Device device : devices_) {
    void* stream = nullptr;
    if (api_ && api_->current_work_stream &&
        api_->current_work_stream(dlpack::kCuda, device.index, &stream) != 0) {
      PyErr_Clear();  // a build of the library without this kind of device
      stream = nullptr;
    }
    DeviceAllocator* const allocator = find_device_allocator(device.type);
    if (!allocator) continue;
    // What this thread does on the default stream comes before what it will do on another one.
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
