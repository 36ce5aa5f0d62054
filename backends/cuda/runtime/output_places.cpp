#include "pteron/backends/cuda/runtime/output_places.h"

#include <algorithm>
#include <cstdint>

namespace pteron::cuda {

OutputPlaces::~OutputPlaces() {
  for (std::unique_ptr<Place>& place : places_) abandon(std::move(place));
}

void OutputPlaces::abandon(std::unique_ptr<Place> place) {
  if (!place || !place->taken) return;
  place->abandoned = true;
  (void)place.release();
}

void OutputPlaces::destroy(slim::Storage* storage) noexcept {
  auto* place = reinterpret_cast<Place*>(storage);
  place->taken = false;
  if (place->abandoned) delete place;
}

void OutputPlaces::offer(Span<const aoti::OutputPlace> places, Device device) {
  if (places_.size() < places.size()) places_.resize(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    std::unique_ptr<Place>& place = places_[i];
    const size_t turn = place ? place->turn : 0;
    if (place && place->taken) abandon(std::move(place));  // somebody keeps it beyond a run
    if (!place) place = std::make_unique<Place>();
    place->storage.data = places[i].data;
    place->storage.nbytes = places[i].nbytes;
    place->storage.device = device;
    place->storage.destroy = &destroy;
    place->output = places[i].output;
    place->requests = 0;
    place->turn = turn;
  }
  offered_ = places.size();
  met_.clear();
}

slim::StorageRef OutputPlaces::take(size_t nbytes) {
  Place* lent = nullptr;
  noted_ = false;
  for (size_t i = 0; i < offered_; ++i) {
    Place& place = *places_[i];
    if (place.storage.nbytes != nbytes) continue;
    noted_ = true;
    last_request_ = place.requests++;  // equal for all places of this size
    if (last_request_ == place.turn && !place.taken && !lent) lent = &place;
  }
  if (!lent) return slim::StorageRef();
  note(lent->storage.data);
  lent->taken = true;
  lent->storage.references.store(1, std::memory_order_relaxed);
  return slim::StorageRef(&lent->storage);
}

void OutputPlaces::note(const void* data) {
  if (noted_) met_.emplace_back(data, last_request_);
}

void OutputPlaces::withdraw(Span<slim::SlimTensor* const> outputs) noexcept {
  for (size_t i = 0; i < offered_; ++i) {
    Place& place = *places_[i];
    const slim::SlimTensor* output =
        place.output < outputs.size() ? outputs[place.output] : nullptr;
    if (!output || !output->is_defined()) continue;
    const void* const data = output->storage()->data;
    if (data == place.storage.data) continue;
    // The last that got this memory has it still.
    const auto found = std::find_if(met_.rbegin(), met_.rend(),
                                    [data](const auto& request) { return request.first == data; });
    place.turn = found == met_.rend() ? SIZE_MAX : found->second;
  }
  offered_ = 0;
}

}  // namespace pteron::cuda
