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

// x[i] += terms[i].
void add(float* x, int64_t n, const float* terms);

// Between bfloat16 and float; rounds to the nearest.
void from_bfloat16(const uint16_t* from, int64_t n, float* to);
void to_bfloat16(const float* from, int64_t n, uint16_t* to);

// to[i] has even[i] in its low half and odd[i] in the other; `odd` null: 0.
void interleave(const uint16_t* even, const uint16_t* odd, int64_t n, uint32_t* to);

// Columns side by side: x[i * width + l] is element i of column l. One step of each column's
// softmax: `maximum` and `sum` are those of the elements before, and become those of all; sums of
// what was weighted before are to be multiplied by `factor`. A column of -infinity alone keeps that
// as its maximum, and all its exponentials are 0. `width` is a multiple of 8.
void softmax_columns(float* x, int64_t rows, int64_t width, float* maximum, float* sum,
                     float* factor);

// x[i * width + l] *= factors[l].
void multiply_columns(float* x, int64_t rows, int64_t width, const float* factors);

}  // namespace pteron::cpu
