#include "pteron/runtime/core/error.h"

#include <cstdarg>
#include <cstdio>
#include <new>

#include "pteron/runtime/core/printable.h"

namespace pteron {

Error::Error(Code code, const std::string& message) : code_(code) {
  try {
    message_ = std::make_unique<std::string>(printable(message, Newlines::Keep));
  } catch (const std::bad_alloc&) {  // the code says enough
  }
}

Error Error::with_context(const std::string& context) && {
  if (ok()) return Ok;
  try {
    return Error(code_, context + ": " + message());
  } catch (const std::bad_alloc&) {
    return std::move(*this);
  }
}

const char* Error::name(Code code) {
  switch (code) {
    case Ok:
      return "Ok";
    case Internal:
      return "Internal";
    case InvalidState:
      return "InvalidState";
    case EndOfMethod:
      return "EndOfMethod";
    case AlreadyLoaded:
      return "AlreadyLoaded";
    case NotSupported:
      return "NotSupported";
    case NotImplemented:
      return "NotImplemented";
    case InvalidArgument:
      return "InvalidArgument";
    case InvalidType:
      return "InvalidType";
    case OperatorMissing:
      return "OperatorMissing";
    case NotFound:
      return "NotFound";
    case MemoryAllocationFailed:
      return "MemoryAllocationFailed";
    case AccessFailed:
      return "AccessFailed";
    case InvalidProgram:
      return "InvalidProgram";
    case InvalidExternalData:
      return "InvalidExternalData";
    case OutOfResources:
      return "OutOfResources";
    case DelegateInvalidCompatibility:
      return "DelegateInvalidCompatibility";
    case DelegateMemoryAllocationFailed:
      return "DelegateMemoryAllocationFailed";
    case DelegateInvalidHandle:
      return "DelegateInvalidHandle";
    case Cancelled:
      return "Cancelled";
    case TimedOut:
      return "TimedOut";
  }
  return "Unknown";
}

Error make_error(Error::Code code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  Error error = code;
  try {
    std::string message(length > 0 ? static_cast<size_t>(length) : 0, '\0');
    if (length > 0) vsnprintf(message.data(), message.size() + 1, format, again);
    error = Error(code, message);
  } catch (const std::bad_alloc&) {  // the code says enough
  }
  va_end(again);
  return error;
}

}  // namespace pteron
