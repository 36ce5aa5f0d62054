// A program that uses every kind of value, instruction and segment there is, and what it computes.
//
// Method "forward":
//   inputs   x float32[4] (planned), n (a symbolic int), y float32[<=4] (the caller's pointer),
//            "hello", None
//   outputs  out float32[4]      = 2 (x + constant) + external + state
//            total float32[1]    = the sum of lists of every kind, which is 25 + n
//            negated float32[4]  = -constant
//            y_out float32[<=4]  = y + y, into memory of the caller
//            y, "hello", None, 0.5
//   state    "state" float32[4], 10 20 30 40 at first; grows by n constants a call
// Method "get_length": no inputs, outputs 128 and [1, 2].
#pragma once

#include <vector>

#include "pteron/runtime/executor/tests/program_writer.h"

namespace pteron::testing {

struct EverythingProgram {
  ProgramSpec program;
  TensorDataSpec data;  // "external", and the blob "opaque"
  static EverythingProgram make();
};

inline const std::vector<float> kConstant{1, 2, 3, 4};
inline const std::vector<float> kExternal{100, 200, 300, 400};
inline const std::vector<float> kInitialState{10, 20, 30, 40};

}  // namespace pteron::testing
