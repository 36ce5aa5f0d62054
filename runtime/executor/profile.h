// Records where the time of methods goes.
//
//   Profile profile;
//   PTERON_RETURN_IF_ERROR(method->set_tracer(&profile));   // or LoadMethodOptions::tracer
//   PTERON_RETURN_IF_ERROR(method->execute());
//   const std::string json = profile.to_json();             // for Perfetto, chrome://tracing
//
// docs/profiling.md describes the JSON. Thread-safe: one profile may record several methods at
// once, each on its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pteron/runtime/backend/event_tracer.h"

namespace pteron {

class Profile final : public EventTracer {
 public:
  // Events and counter values from `max_events` on are counted, not recorded.
  explicit Profile(size_t max_events = 1'000'000);

  uint64_t begin(std::string_view category, std::string_view name) override;
  void end(uint64_t event) override;
  void describe(uint64_t event, const EventDetails& details) override;
  void count(std::string_view counter, uint64_t value) override;
  void record_on_device(uint64_t event, int64_t start_ns, int64_t duration_ns,
                        std::string_view stream) override;

  // Chrome's trace format. Times are microseconds since the profile was made. Events that have not
  // ended are left out.
  std::string to_json() const;

 private:
  struct Event {
    std::string_view category, name, op, module, source, shapes, stream;
    uint64_t nbytes = 0;
    int64_t start_ns = 0;
    int64_t duration_ns = -1;  // not ended
    int64_t cpu_ns = -1;       // of all threads; until the end: of the clock at the start
    int64_t helpers_ns = 0;    // CPU time of other threads before the start
    uint32_t threads = 1;
    uint32_t outer_threads = 1;
    int64_t thread = 0;  // id
  };
  struct Count {
    std::string_view counter;
    int64_t time_ns;
    uint64_t value;
  };

  std::string_view intern(std::string_view text);

  const int64_t start_ns_;
  const size_t max_events_;
  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> texts_;  // each once
  std::vector<Event> events_;
  std::vector<Count> counts_;
  uint64_t dropped_ = 0;
};

}  // namespace pteron
