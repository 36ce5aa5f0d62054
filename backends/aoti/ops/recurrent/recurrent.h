// The steps of one direction of a recurrent layer.
#pragma once

#include "pteron/backends/aoti/ops/recurrent/recurrent_kind.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

// For each step, in reverse order if `reverse`: gates = input[step] + h @ weight^T + bias, from which
// follow out[step], the next h, and, of an LSTM, the next c. Gates are in torch's order.
//
//   input       [steps, batch, gates * units], at least one step
//   weight      [gates * units, outputs]
//   bias        [gates * units], or null
//   projection  [outputs, units] of an LSTM: h = projection @ (output gate * tanh(c)); or null, and
//               outputs is units
//   hx          [batch, outputs]: h before the first step
//   c           [batch, units] of an LSTM: before the first step, and after the call after the last;
//               else null
//   out         [steps, batch, outputs]
//
// All are row-major and have one dtype.
struct RecurrentCall {
  RecurrentKind kind;
  bool reverse;
  const slim::SlimTensor& input;
  const slim::SlimTensor& weight;
  const slim::SlimTensor* bias;
  const slim::SlimTensor* projection;
  const slim::SlimTensor& hx;
  const slim::SlimTensor* c;
  const slim::SlimTensor& out;
};

}  // namespace pteron::aoti
