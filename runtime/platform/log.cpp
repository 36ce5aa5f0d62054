#include "pteron/runtime/platform/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "pteron/runtime/core/printable.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron {
namespace {

constexpr const char* kNames[] = {"debug", "info", "warning", "error", "off"};

void write_to_stderr(LogLevel level, const char* message, void*) {
  std::fprintf(stderr, "pteron %s: %s\n", kNames[static_cast<int>(level)], message);
}

LogLevel initial_level() {
  if (const char* text = std::getenv("PTERON_LOG_LEVEL")) {
    for (int i = 0; i < 5; ++i) {
      if (std::strcmp(text, kNames[i]) == 0) return static_cast<LogLevel>(i);
    }
  }
  return LogLevel::Warning;
}

std::atomic<LogLevel>& threshold() {
  static Once<std::atomic<LogLevel>> level;
  return level.get(initial_level);
}

struct Sink {
  LogSink function = write_to_stderr;
  void* user = nullptr;
};

// Both are usable before static initializers and after static destructors.
ForkMutex sink_mutex;
Sink chosen_sink;

}  // namespace

void set_log_sink(LogSink sink, void* user) {
  std::lock_guard<ForkMutex> lock(sink_mutex);
  chosen_sink = sink ? Sink{sink, user} : Sink{};
}

void set_log_level(LogLevel level) { threshold().store(level, std::memory_order_relaxed); }

bool log_enabled(LogLevel level) {
  return level >= threshold().load(std::memory_order_relaxed) && level < LogLevel::Off;
}

void log_message(LogLevel level, const char* format, ...) {
  if (!log_enabled(level)) return;
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string message(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(message.data(), message.size() + 1, format, again);
  va_end(again);
  Sink sink;
  {
    std::lock_guard<ForkMutex> lock(sink_mutex);
    sink = chosen_sink;
  }
  sink.function(level, printable(message, Newlines::Keep).c_str(), sink.user);
}

}  // namespace pteron
