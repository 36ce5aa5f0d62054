// Collects what is wrong with a file, so that it can be reported at once.
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

  // printf-style. The code of the first problem becomes that of the error.
  void add(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void add(Error::Code code, const char* format, ...) __attribute__((format(printf, 3, 4)));
  // Nothing if `error` is Ok.
  void add(const Error& error);

  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }

  // Ok when there are none. One problem is "subject: problem"; more are a list with their number.
  Error to_error(const std::string& subject) const;

 private:
  void add_text(Error::Code code, std::string text);

  Error::Code code_ = Error::InvalidProgram;
  size_t count_ = 0;
  std::vector<std::string> texts_;
};

}  // namespace pteron
