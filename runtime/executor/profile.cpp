#include "pteron/runtime/executor/profile.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>

#include "pteron/runtime/core/printable.h"
#include "pteron/runtime/core/run_control.h"

namespace pteron {
namespace {

int64_t now(clockid_t clock) {
  timespec time;
  ::clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

int64_t thread_id() {
#if defined(__APPLE__)
  uint64_t id = 0;
  pthread_threadid_np(nullptr, &id);
  return static_cast<int64_t>(id);
#else
  return ::syscall(SYS_gettid);
#endif
}

// Null outside of runs, as during a load.
RunControl::Work* current_work() {
  const RunControl* const control = RunControl::current();
  return control ? control->work() : nullptr;
}

void append_text(std::string& json, std::string_view text) {
  json += '"';
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  json += '"';
}

void append_field(std::string& json, const char* name, std::string_view text) {
  json += ",\"";
  json += name;
  json += "\":";
  append_text(json, text);
}

void append_microseconds(std::string& json, const char* name, int64_t ns) {
  char text[64];
  std::snprintf(text, sizeof(text), ",\"%s\":%" PRId64 ".%03d", name, ns / 1000,
                static_cast<int>(ns % 1000));
  json += text;
}

void append_number(std::string& json, const char* name, int64_t number) {
  json += ",\"";
  json += name;
  json += "\":" + std::to_string(number);
}

}  // namespace

Profile::Profile(size_t max_events)
    : start_ns_(now(CLOCK_MONOTONIC)), max_events_(std::min<size_t>(max_events, SIZE_MAX - 1)) {}

std::string_view Profile::intern(std::string_view text) {
  if (text.empty()) return {};
  const auto found = texts_.find(text);
  return found != texts_.end() ? *found : *texts_.emplace(text).first;
}

uint64_t Profile::begin(std::string_view category, std::string_view name) {
  Event event;
  event.thread = thread_id();
  if (RunControl::Work* const work = current_work()) {
    event.helpers_ns = work->cpu_ns.load(std::memory_order_relaxed);
    event.outer_threads = work->threads;
    work->threads = 1;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (events_.size() + counts_.size() >= max_events_) return ++dropped_, SIZE_MAX;
  event.category = intern(category);
  event.name = intern(name);
  // Clocks last: what recording costs belongs to the enclosing event.
  event.cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
  event.start_ns = now(CLOCK_MONOTONIC);
  events_.push_back(event);
  return events_.size() - 1;
}

void Profile::end(uint64_t index) {
  const int64_t end_ns = now(CLOCK_MONOTONIC);
  const int64_t cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (index >= events_.size()) return;
  Event& event = events_[index];
  event.duration_ns = end_ns - event.start_ns;
  event.cpu_ns = cpu_ns - event.cpu_ns;
  if (RunControl::Work* const work = current_work()) {
    event.cpu_ns += work->cpu_ns.load(std::memory_order_relaxed) - event.helpers_ns;
    event.threads = work->threads;
    work->threads = std::max(work->threads, event.outer_threads);
  }
}

void Profile::describe(uint64_t index, const EventDetails& details) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (index >= events_.size()) return;
  Event& event = events_[index];
  event.op = intern(details.op);
  event.module = intern(details.module);
  event.source = intern(details.source);
  event.shapes = intern(details.shapes);
  event.nbytes = details.nbytes;
}

void Profile::count(std::string_view counter, uint64_t value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (events_.size() + counts_.size() >= max_events_) return void(++dropped_);
  counts_.push_back({intern(counter), now(CLOCK_MONOTONIC), value});
}

void Profile::record_on_device(uint64_t index, int64_t start_ns, int64_t duration_ns,
                               std::string_view stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (index >= events_.size()) return;
  if (events_.size() + counts_.size() >= max_events_) return void(++dropped_);
  Event event = events_[index];
  event.stream = intern(stream);
  event.start_ns += start_ns;
  event.duration_ns = duration_ns;
  event.cpu_ns = 0;
  events_.push_back(event);
}

std::string Profile::to_json() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t pid = ::getpid();
  std::string json = "{\"displayTimeUnit\":\"ns\",\"dropped\":" + std::to_string(dropped_) +
                     ",\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\"";
  append_number(json, "pid", pid);
  json += ",\"args\":{\"name\":\"pteron\"}}";
  // A device's stream is a row of its own; ids of threads are positive.
  std::map<std::string_view, int64_t> streams;
  for (const Event& event : events_) {
    if (event.duration_ns < 0) continue;
    int64_t row = event.thread;
    if (!event.stream.empty()) {
      const auto [found, is_new] =
          streams.emplace(event.stream, -1 - static_cast<int64_t>(streams.size()));
      row = found->second;
      if (is_new) {
        json += ",\n{\"name\":\"thread_name\",\"ph\":\"M\"";
        append_number(json, "pid", pid);
        append_number(json, "tid", row);
        json += ",\"args\":{\"name\":";
        append_text(json, event.stream);
        json += "}}";
      }
    }
    json += ",\n{\"ph\":\"X\"";
    append_field(json, "name", event.name);
    append_field(json, "cat", event.category);
    append_microseconds(json, "ts", event.start_ns - start_ns_);
    append_microseconds(json, "dur", event.duration_ns);
    append_number(json, "pid", pid);
    append_number(json, "tid", row);
    json += ",\"args\":{\"kind\":";
    append_text(json, event.category);
    append_field(json, "op", event.op);
    append_field(json, "module", event.module);
    append_field(json, "source", event.source);
    append_field(json, "shapes", event.shapes);
    append_field(json, "stream", event.stream);
    append_number(json, "bytes", static_cast<int64_t>(event.nbytes));
    append_number(json, "threads", event.threads);
    append_microseconds(json, "cpu_us", event.cpu_ns);
    json += "}}";
  }
  for (const Count& count : counts_) {
    json += ",\n{\"ph\":\"C\"";
    append_field(json, "name", count.counter);
    append_microseconds(json, "ts", count.time_ns - start_ns_);
    append_number(json, "pid", pid);
    json += ",\"args\":{\"value\":" + std::to_string(count.value) + "}}";
  }
  json += "\n]}\n";
  return json;
}

}  // namespace pteron
