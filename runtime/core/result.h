// A value or an Error.
//
//   Result<int> parse(std::string_view text);
//   Result<int> twice(std::string_view text) {
//     PTERON_ASSIGN_OR_RETURN(const int number, parse(text));
//     return 2 * number;
//   }
//   Error print(std::string_view text) {
//     Result<int> number = twice(text);
//     if (!number.ok()) return number.take_error();
//     printf("%d\n", *number);
//     return Error::Ok;
//   }
//
// Owns the value. Not thread-safe.
#pragma once

#include <optional>
#include <utility>

#include "pteron/runtime/core/error.h"

namespace pteron {

template <typename T>
class [[nodiscard]] Result final {
 public:
  // Implicit from a value or an error, so that both can be returned as they are.
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  // `error` must be a failure; a success without a value becomes Internal.
  Result(Error error)  // NOLINT(google-explicit-constructor)
      : error_(error.ok() ? Error(Error::Internal, "Result made from Error::Ok without a value")
                          : std::move(error)) {}
  Result(Error::Code code) : Result(Error(code)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Error& error() const { return error_; }
  // Moves the error out; call it only when !ok().
  Error take_error() { return std::move(error_); }

  // Requires ok().
  T& get() { return *value_; }
  const T& get() const { return *value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Error error_;
};

}  // namespace pteron

#define PTERON_CONCAT_INNER_(a, b) a##b
#define PTERON_CONCAT_(a, b) PTERON_CONCAT_INNER_(a, b)

// PTERON_ASSIGN_OR_RETURN(Plan plan, program.plan(name)): declares `plan`, or returns the error.
#define PTERON_ASSIGN_OR_RETURN(declaration, expression) \
  PTERON_ASSIGN_OR_RETURN_(PTERON_CONCAT_(pteron_result_, __LINE__), declaration, expression)
#define PTERON_ASSIGN_OR_RETURN_(result, declaration, expression)    \
  auto result = (expression);                                        \
  if (__builtin_expect(!result.ok(), 0)) return result.take_error(); \
  declaration = std::move(result.get())
