// Collects the errors of a file, to report them together.
//
//   ErrorList errors;
//   errors.add("method %s: value %zu is empty", name, i);
//   return errors.to_error("model.pte");   // Ok if there were none
//
// Keeps the first kMaxListed and counts the rest. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pteron/runtime/core/error.h"

namespace pteron {

class ErrorList final {
 public:
  static constexpr size_t kMaxListed = 20;

  // printf-style. The first problem determines the error code.
  void add(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void add(Error::Code code, const char* format, ...) __attribute__((format(printf, 3, 4)));
  // Does nothing if `error` is Ok.
  void add(const Error& error);

  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }

  // Ok if there are none. One problem is "subject: problem"; several are a numbered list.
  Error to_error(const std::string& subject) const;

 private:
  void add_text(Error::Code code, std::string text);

  Error::Code code_ = Error::InvalidProgram;
  size_t count_ = 0;
  std::vector<std::string> texts_;
};

}  // namespace pteron
