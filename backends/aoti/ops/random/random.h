// Random numbers. Results are row-major.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// Uniform integers.
struct RandomIntegersCall {
  const slim::SlimTensor& out;  // real
  int64_t low, high;            // low <= out[i] < high
};

// A random permutation of 0 to the size of `out` - 1.
struct PermutationCall {
  const slim::SlimTensor& out;  // real, 1-d
};

// multinomial: positions in a row, with probability proportional to the element. Without
// replacement the samples of a row are distinct.
struct MultinomialCall {
  const slim::SlimTensor& self;  // floating-point, rows along the last dimension
  bool replacement;
  const slim::SlimTensor& out;  // int64, the samples of each row along the last dimension

  int64_t rows() const { return self.dim() == 1 ? 1 : self.size(0); }
  int64_t length() const { return self.size(self.dim() - 1); }
  int64_t count() const { return out.size(out.dim() - 1); }
};

}  // namespace pteron::aoti
