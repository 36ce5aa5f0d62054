// Device memory of a model's output.
#pragma once

#include <cstddef>

namespace pteron::aoti {

struct OutputBuffer {
  void* data = nullptr;
  size_t nbytes = 0;
  size_t output = 0;  // which
};

}  // namespace pteron::aoti
