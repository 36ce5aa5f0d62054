// Building blocks of an online softmax, in the machine's widest vectors.
//
//   float maximum = max_of(scores, n, -INFINITY);
//   float sum = exponentials(scores, n, maximum);   // scores[i] = exp(scores[i] - maximum)
#pragma once

#include <cstdint>

namespace pteron::cpu {

// The largest of x[0] to x[n - 1] and `least`.
float max_of(const float* x, int64_t n, float least);

// x[i] = exp(x[i] - base), which is at most 1; returns their sum. -infinity gives 0. The relative
// error is below 3e-7.
float exponentials(float* x, int64_t n, float base);

// x[i] *= factor.
void multiply(float* x, int64_t n, float factor);

}  // namespace pteron::cpu
