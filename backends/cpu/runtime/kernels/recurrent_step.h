// A step of one direction of a recurrent layer, on the calling thread.
//
//   const RecurrentFunctions<float>& functions = recurrent_functions<float>();
//   functions.step(step, /*begin=*/0, /*end=*/step.units);     // some of the units
//   functions.project(batch, columns, rows, x, weight, out, 0, rows);    // some of the rows
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/ops/recurrent/recurrent_kind.h"

namespace pteron::cpu {

// Ranges of units and rows best begin at multiples of it.
inline constexpr int64_t kRecurrentUnits = 16;

// Row-major matrices, as of aoti::RecurrentCall.
template <typename T>
struct RecurrentStep {
  aoti::RecurrentKind kind;
  int64_t batch, units, outputs;
  const T* input;   // of this step
  const T* hidden;  // before it
  const T* weight;
  const T* bias;  // or null
  T* cell;        // before it, then after it; null if no LSTM
  T* out;         // [batch, units]: before the projection
};

template <typename T>
struct RecurrentFunctions {
  // Of the units [begin, end).
  void (*step)(const RecurrentStep<T>& step, int64_t begin, int64_t end);
  // out[i, r] = sum of x[i, k] * weight[r, k] over k < columns, for the rows r in [begin, end) of the
  // weight and i < batch; out has `rows` columns.
  void (*project)(int64_t batch, int64_t columns, int64_t rows, const T* x, const T* weight, T* out,
                  int64_t begin, int64_t end);
};

// For this machine. T: float, double.
template <typename T>
const RecurrentFunctions<T>& recurrent_functions();

}  // namespace pteron::cpu
