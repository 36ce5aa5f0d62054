// The places of outputs, lent to the code of a model for as long as it runs.
//
//   places.offer(wanted, device);
//   slim::StorageRef storage = places.take(nbytes);   // a place of just so many bytes, or null:
//   if (!storage) places.note(data);                  // the caller found it other memory
//   places.withdraw(outputs);                         // what was taken stays with who took it
//
// The code asks for many pieces of memory of one size, and which will be the output shows at the
// end. Code asks in the same order at every run: the first one is lent its place, and after a run
// in which an output came to lie elsewhere, the one that it lay in. Whatever is lent is right,
// since a place that is let go of is taken again only for what comes later on the same stream.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/runtime/output_place.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/aoti/slim/core/storage.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/span.h"

namespace pteron::cuda {

class OutputPlaces final {
 public:
  OutputPlaces() = default;
  ~OutputPlaces();
  OutputPlaces(const OutputPlaces&) = delete;
  OutputPlaces& operator=(const OutputPlaces&) = delete;

  void offer(Span<const aoti::OutputPlace> places, Device device);
  slim::StorageRef take(size_t nbytes);
  // Where the last request, which take() refused, was met.
  void note(const void* data);
  void withdraw(Span<slim::SlimTensor* const> outputs) noexcept;

 private:
  struct Place {
    slim::Storage storage;  // first: destroy() finds the place through it
    size_t output = 0;
    size_t requests = 0;  // of its size in this run
    size_t turn = 0;      // the request to lend it to
    bool taken = false;
    bool abandoned = false;  // whoever lets go of it deletes it
  };
  static void destroy(slim::Storage* storage) noexcept;
  static void abandon(std::unique_ptr<Place> place);

  std::vector<std::unique_ptr<Place>> places_;
  size_t offered_ = 0;  // the first ones of places_
  bool noted_ = false;  // the last request is of some place's size
  size_t last_request_ = 0;
  std::vector<std::pair<const void*, size_t>> met_;  // requests of this run, by where
};

}  // namespace pteron::cuda
