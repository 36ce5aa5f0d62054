#include "pteron/runtime/program_reader/error_list.h"

#include <cstdarg>
#include <cstdio>
#include <utility>

namespace pteron {
namespace {

std::string format_text(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace

void ErrorList::add(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  // Beyond the limit only counts: a hostile file may have millions.
  add_text(Error::InvalidProgram, count_ < kMaxListed ? format_text(format, arguments) : "");
  va_end(arguments);
}

void ErrorList::add(Error::Code code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  add_text(code, count_ < kMaxListed ? format_text(format, arguments) : "");
  va_end(arguments);
}

void ErrorList::add(const Error& error) {
  if (!error.ok()) add_text(error.code(), error.message());
}

void ErrorList::add_text(Error::Code code, std::string text) {
  if (count_ == 0) code_ = code;
  if (count_ < kMaxListed) texts_.push_back(std::move(text));
  ++count_;
}

Error ErrorList::to_error(const std::string& subject) const {
  if (count_ == 0) return Error::Ok;
  std::string message = subject.empty() ? "" : subject + ": ";
  if (count_ == 1) return Error(code_, message + texts_[0]);
  message += std::to_string(count_) + " errors";
  for (const std::string& text : texts_) message += "\n  " + text;
  if (count_ > texts_.size()) {
    message += "\n  and " + std::to_string(count_ - texts_.size()) + " more";
  }
  return Error(code_, message);
}

}  // namespace pteron
