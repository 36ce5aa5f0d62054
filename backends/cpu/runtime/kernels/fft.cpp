#include "pteron/backends/cpu/runtime/kernels/fft.h"

#include <algorithm>
#include <cmath>

namespace pteron::cpu {
namespace {

constexpr double kPi = 3.14159265358979323846;
// Prime factors up to this one use a direct DFT; larger ones Bluestein's algorithm.
constexpr int64_t kLargestFactor = 31;

// exp(sign * 2 pi i * k / n)
template <typename T>
std::complex<T> root(int64_t k, int64_t n, double sign) {
  const double angle = sign * 2 * kPi * static_cast<double>(k % n) / static_cast<double>(n);
  return {static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle))};
}

// std::complex's operator* handles NaN, which takes several times as long.
template <typename T>
std::complex<T> times(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

}  // namespace

template <typename T>
FftPlan<T>::FftPlan(int64_t length, bool forward) : length_(length) {
  const double sign = forward ? -1 : 1;
  int64_t rest = length;
  const auto divide_by = [&](int64_t factor) {
    for (; rest % factor == 0; rest /= factor) factors_.push_back(factor);
  };
  divide_by(4);
  for (int64_t factor = 2; factor <= kLargestFactor; ++factor) divide_by(factor);
  if (rest == 1) {
    for (int64_t k = 0; k < length; ++k) twiddles_.push_back(root<T>(k, length, sign));
    return;
  }
  // k * j = (k^2 + j^2 - (k - j)^2) / 2 makes the sum a convolution with exp(i pi k^2 / n).
  int64_t padded = 1;
  while (padded < 2 * length - 1) padded *= 2;
  inner_forward_ = std::make_unique<FftPlan>(padded, true);
  inner_backward_ = std::make_unique<FftPlan>(padded, false);
  filter_.assign(static_cast<size_t>(padded), {});
  for (int64_t k = 0; k < length; ++k) {
    // k^2 modulo 2n, without integer overflow or loss of precision.
    const auto square =
        static_cast<int64_t>(static_cast<unsigned __int128>(k) * static_cast<uint64_t>(k) %
                             static_cast<uint64_t>(2 * length));
    chirp_.push_back(root<T>(square, 2 * length, sign));
    const std::complex<T> tap = std::conj(chirp_.back()) / static_cast<T>(padded);
    filter_[static_cast<size_t>(k)] = tap;
    filter_[static_cast<size_t>((padded - k) % padded)] = tap;
  }
  std::vector<std::complex<T>> work(static_cast<size_t>(inner_forward_->work_size()));
  inner_forward_->run(filter_.data(), work.data());
}

template <typename T>
int64_t FftPlan<T>::work_size() const {
  return inner_forward_ ? 2 * inner_forward_->length() : length_;
}

template <typename T>
void FftPlan<T>::run(std::complex<T>* row, std::complex<T>* work) const {
  if (!inner_forward_) {
    std::copy(row, row + length_, work);
    transform(work, row, length_, 1, 0);
    return;
  }
  const int64_t padded = inner_forward_->length();
  std::complex<T>* const inner_work = work + padded;
  for (int64_t k = 0; k < length_; ++k) work[k] = times(row[k], chirp_[static_cast<size_t>(k)]);
  std::fill(work + length_, work + padded, std::complex<T>());
  inner_forward_->run(work, inner_work);
  for (int64_t k = 0; k < padded; ++k) work[k] = times(work[k], filter_[static_cast<size_t>(k)]);
  inner_backward_->run(work, inner_work);
  for (int64_t k = 0; k < length_; ++k) row[k] = times(work[k], chirp_[static_cast<size_t>(k)]);
}

// out = the transform of in[0], in[step], in[2 * step], ...
template <typename T>
void FftPlan<T>::transform(const std::complex<T>* in, std::complex<T>* out, int64_t length,
                           int64_t step, size_t factor) const {
  if (length == 1) {
    out[0] = in[0];
    return;
  }
  const int64_t p = factors_[factor], m = length / p;
  for (int64_t r = 0; r < p && m > 1; ++r) {
    transform(in + r * step, out + r * m, m, step * p, factor + 1);
  }
  const std::complex<T>* const roots = twiddles_.data();
  std::complex<T> parts[kLargestFactor];
  for (int64_t k = 0; k < m; ++k) {
    for (int64_t r = 0; r < p; ++r) {
      parts[r] = m == 1 ? in[r * step] : times(out[r * m + k], roots[r * k * step]);
    }
    if (p == 2) {
      out[k] = parts[0] + parts[1];
      out[m + k] = parts[0] - parts[1];
      continue;
    }
    if (p == 4) {
      const std::complex<T> even = parts[0] + parts[2], odd = parts[0] - parts[2];
      const std::complex<T> sum = parts[1] + parts[3];
      const std::complex<T> turned = times(parts[1] - parts[3], roots[m * step]);
      out[k] = even + sum;
      out[m + k] = odd + turned;
      out[2 * m + k] = even - sum;
      out[3 * m + k] = odd - turned;
      continue;
    }
    for (int64_t q = 0; q < p; ++q) {
      std::complex<T> sum = parts[0];
      int64_t turn = 0;  // q * r * m modulo the length
      for (int64_t r = 1; r < p; ++r) {
        turn += q * m;
        if (turn >= length) turn -= length;
        sum += times(parts[r], roots[turn * step]);
      }
      out[q * m + k] = sum;
    }
  }
}

template class FftPlan<float>;
template class FftPlan<double>;

}  // namespace pteron::cpu
