// Logging. Never used on the run path.
//
//   PTERON_LOG(Warning, "backend %s is not available: %s", id, reason.c_str());
//   set_log_sink([](LogLevel level, const char* message, void* user) { ... }, user);
//
// By default warnings and errors go to stderr, one line each. Thread-safe.
#pragma once

namespace pteron {

enum class LogLevel : int { Debug = 0, Info = 1, Warning = 2, Error = 3, Off = 4 };

// `message` is one line without its newline, borrowed for the call. May be called by several
// threads at once; must not log and not throw.
using LogSink = void (*)(LogLevel level, const char* message, void* user);

// Sets the sink; null for stderr. `user` is passed to the sink. A message that another thread is
// writing may still go to the previous sink.
void set_log_sink(LogSink sink, void* user);

// Messages below `level` are dropped before they are formatted. Default: Warning, or the
// environment variable PTERON_LOG_LEVEL (debug, info, warning, error, off).
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);

// printf-style; use the macro, which formats nothing when the level is off.
void log_message(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace pteron

#define PTERON_LOG(level, ...)                                       \
  do {                                                               \
    if (::pteron::log_enabled(::pteron::LogLevel::level)) {          \
      ::pteron::log_message(::pteron::LogLevel::level, __VA_ARGS__); \
    }                                                                \
  } while (false)
