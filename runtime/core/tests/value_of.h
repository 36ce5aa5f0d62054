// The value of a Result that a test needs. Without one the test ends there, with the error.
//
//   const auto program = value_of(Program::load(bytes));
#pragma once

#include <stdexcept>
#include <utility>

#include "pteron/runtime/core/result.h"

namespace pteron {

template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

}  // namespace pteron
