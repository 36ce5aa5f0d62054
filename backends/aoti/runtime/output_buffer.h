// Memory on a device in which an output of a model belongs.
#pragma once

#include <cstddef>

namespace pteron::aoti {

struct OutputBuffer {
  void* data = nullptr;
  size_t nbytes = 0;
  size_t output = 0;  // which
};

}  // namespace pteron::aoti
