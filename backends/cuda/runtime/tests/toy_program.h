// A program of two delegates around the toy model, made in memory: y = (x @ a) @ b.
//
//   ToyProgram toy;                                  // random weights
//   auto program = Program::load(toy.bytes());
//   toy.reference(x)                                 // in float64
#pragma once

#include <cstdint>
#include <vector>

#include "pteron/backends/cuda/runtime/testing/cuda_test.h"

namespace pteron::cuda::testing {

inline constexpr int64_t kToySize = 64;  // of every dimension

class ToyProgram final {
 public:
  // Input, output and what is between are planned for cuda:0; the input is borrowed.
  ToyProgram();

  const std::vector<uint8_t>& bytes() const { return bytes_; }
  HostTensor reference(const HostTensor& x) const;

 private:
  HostTensor a_, b_;
  std::vector<uint8_t> bytes_;
};

}  // namespace pteron::cuda::testing
