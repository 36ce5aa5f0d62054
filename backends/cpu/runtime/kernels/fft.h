// FFT of one row of any length.
//
//   #include "pteron/backends/cpu/runtime/kernels/scratch.h"
//
//   const FftPlan<float> plan(1024, /*forward=*/true);
//   Scratch<std::complex<float>> work(plan.work_size());
//   plan.run(row, work.data());             // in place, not normalised
//
// A plan is immutable and may be used by several threads, each with its own work memory.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace pteron::cpu {

template <typename T>
class FftPlan final {
 public:
  FftPlan(int64_t length, bool forward);

  int64_t length() const { return length_; }
  // Size of run()'s work memory in complex elements.
  int64_t work_size() const;
  void run(std::complex<T>* row, std::complex<T>* work) const;

 private:
  void transform(const std::complex<T>* in, std::complex<T>* out, int64_t length, int64_t step,
                 size_t factor) const;

  int64_t length_;
  std::vector<int64_t> factors_;           // prime factors of the length, fours first
  std::vector<std::complex<T>> twiddles_;  // twiddle factors
  // For lengths with a large prime factor: Bluestein's algorithm.
  std::unique_ptr<FftPlan> inner_forward_, inner_backward_;
  std::vector<std::complex<T>> chirp_, filter_;
};

}  // namespace pteron::cpu
