// An error code with a message.
//
//   #include <unistd.h>
//   Error check(const char* path) {
//     if (access(path, R_OK) != 0) return make_error(Error::NotFound, "no file at %s", path);
//     return Error::Ok;
//   }
//   void report(const char* path) {
//     if (Error error = check(path); !error.ok()) puts(error.message().c_str());
//   }
//
// Codes have the values of ExecuTorch's `Error`, as far as it defines them. A success is one null
// pointer and allocates nothing; a failure owns its message. Move-only; a moved-from Error keeps
// its code and loses its message. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace pteron {

class [[nodiscard]] Error final {
 public:
  enum Code : uint32_t {
    Ok = 0x00,
    // System errors: the runtime itself.
    Internal = 0x01,
    InvalidState = 0x02,
    EndOfMethod = 0x03,
    AlreadyLoaded = 0x04,
    // Logical errors: the caller's request.
    NotSupported = 0x10,
    NotImplemented = 0x11,
    InvalidArgument = 0x12,
    InvalidType = 0x13,
    OperatorMissing = 0x14,
    // Resource errors: the caller's or the file's resources.
    NotFound = 0x20,
    MemoryAllocationFailed = 0x21,
    AccessFailed = 0x22,
    InvalidProgram = 0x23,
    InvalidExternalData = 0x24,
    OutOfResources = 0x25,
    // Delegate errors.
    DelegateInvalidCompatibility = 0x30,
    DelegateMemoryAllocationFailed = 0x31,
    DelegateInvalidHandle = 0x32,
    // Extensions to ExecuTorch's codes: cancelled and timed-out runs.
    Cancelled = 0x40,
    TimedOut = 0x41,
  };

  // Implicit, so that `return Error::Ok;` and `return Error::NotFound;` read well.
  Error(Code code = Ok) : code_(code) {}  // NOLINT(google-explicit-constructor)
  // `message` may contain text of a file: it is escaped by printable(), except newlines; empty if
  // out of memory.
  Error(Code code, const std::string& message);

  bool ok() const { return code_ == Ok; }
  Code code() const { return code_; }

  // What was found, expected, and to try; the code's name if no message was given.
  std::string message() const { return message_ ? *message_ : std::string(name(code_)); }

  // The same error with `context + ": "` before its message. A success stays a success.
  Error with_context(const std::string& context) &&;

  // "InvalidArgument" for InvalidArgument; "Unknown" for a value outside the enum.
  static const char* name(Code code);

  friend bool operator==(const Error& error, Code code) { return error.code_ == code; }
  friend bool operator!=(const Error& error, Code code) { return error.code_ != code; }

 private:
  Code code_;
  std::unique_ptr<std::string> message_;
};

// printf-style: make_error(Error::InvalidType, "input %zu: found %s, expected %s", i, a, b).
Error make_error(Error::Code code, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace pteron

// Returns from the enclosing function (which returns Error or Result) when `expression` failed.
#define PTERON_RETURN_IF_ERROR(expression)                              \
  do {                                                                  \
    ::pteron::Error pteron_error_ = (expression);                       \
    if (__builtin_expect(!pteron_error_.ok(), 0)) return pteron_error_; \
  } while (false)

// Returns an error with a printf-style message unless `condition` holds.
#define PTERON_CHECK_OR_RETURN(condition, code, ...)                                       \
  do {                                                                                     \
    if (__builtin_expect(!(condition), 0)) return ::pteron::make_error(code, __VA_ARGS__); \
  } while (false)
