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
#define PTERON_NAME(code) \
  case code:              \
    return #code;
  switch (code) {
    PTERON_NAME(Ok)
    PTERON_NAME(Internal)
    PTERON_NAME(InvalidState)
    PTERON_NAME(EndOfMethod)
    PTERON_NAME(AlreadyLoaded)
    PTERON_NAME(NotSupported)
    PTERON_NAME(NotImplemented)
    PTERON_NAME(InvalidArgument)
    PTERON_NAME(InvalidType)
    PTERON_NAME(OperatorMissing)
    PTERON_NAME(NotFound)
    PTERON_NAME(MemoryAllocationFailed)
    PTERON_NAME(AccessFailed)
    PTERON_NAME(InvalidProgram)
    PTERON_NAME(InvalidExternalData)
    PTERON_NAME(OutOfResources)
    PTERON_NAME(DelegateInvalidCompatibility)
    PTERON_NAME(DelegateMemoryAllocationFailed)
    PTERON_NAME(DelegateInvalidHandle)
    PTERON_NAME(Cancelled)
    PTERON_NAME(TimedOut)
  }
#undef PTERON_NAME
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
