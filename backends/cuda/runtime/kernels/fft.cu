#include <algorithm>
#include <utility>

#include "pteron/backends/cuda/runtime/cuda_error.h"
#include "pteron/backends/cuda/runtime/kernels/fft.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
struct Complex {
  T real, imag;
};

unsigned blocks(int64_t count) {
  return static_cast<unsigned>(std::min<int64_t>((count + kThreads - 1) / kThreads, 65536));
}

// Calls body(i) for the numbers of this thread.
template <typename Body>
__device__ void for_each(int64_t count, const Body& body) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    body(i);
  }
}

template <typename T>
__global__ void load_kernel(__grid_constant__ const FourierRows rows, const T* in,
                            Complex<T>* out) {
  for_each(rows.count * rows.length, [&](int64_t i) {
    const int64_t row = i / rows.length * rows.in_length, k = i % rows.length;
    if (rows.real_in) {
      out[i] = {in[row + k], T(0)};
      return;
    }
    const bool mirrored = k >= rows.in_length;
    const int64_t from = 2 * (row + (mirrored ? rows.length - k : k));
    out[i] = {in[from], mirrored ? -in[from + 1] : in[from + 1]};
  });
}

template <typename T>
__global__ void store_kernel(__grid_constant__ const FourierRows rows, const Complex<T>* in,
                             T* out) {
  const T scale = static_cast<T>(rows.scale);
  for_each(rows.count * rows.out_length, [&](int64_t i) {
    const Complex<T> value = in[i / rows.out_length * rows.length + i % rows.out_length];
    if (rows.real_out) {
      out[i] = value.real * scale;
    } else {
      out[2 * i] = value.real * scale;
      out[2 * i + 1] = value.imag * scale;
    }
  });
}

__device__ inline void sine_and_cosine_of_pi(float x, float* sine, float* cosine) {
  sincospif(x, sine, cosine);
}
__device__ inline void sine_and_cosine_of_pi(double x, double* sine, double* cosine) {
  sincospi(x, sine, cosine);
}

// One step of a decimation in frequency that leaves its results in order: `inner` transforms that
// lie side by side, of `length` numbers each, become inner * radix of length / radix.
template <typename T>
__global__ void pass_kernel(const Complex<T>* in, Complex<T>* out, int64_t count,
                            int64_t row_length, int64_t length, int64_t radix, int64_t inner,
                            bool forward) {
  const int64_t part = length / radix;
  const T unit = static_cast<T>(forward ? -2 : 2) / static_cast<T>(length);
  for_each(count, [&](int64_t i) {
    const int64_t at = i % row_length, q = at % inner, k = at / inner % radix,
                  p = at / inner / radix;
    const Complex<T>* const row = in + (i - at);
    Complex<T> sum{0, 0};
    for (int64_t r = 0; r < radix; ++r) {
      const Complex<T> value = row[q + inner * (p + part * r)];
      // exp(2 pi i * k (p + part r) / length), the exponent between -length / 2 and that.
      int64_t exponent = k * (p + part * r) % length;
      if (2 * exponent > length) exponent -= length;
      T sine, cosine;
      sine_and_cosine_of_pi(unit * static_cast<T>(exponent), &sine, &cosine);
      sum.real += value.real * cosine - value.imag * sine;
      sum.imag += value.real * sine + value.imag * cosine;
    }
    out[i] = sum;
  });
}

int64_t next_radix(int64_t length) {
  if (length % 4 == 0) return 4;
  for (int64_t factor = 2; factor * factor <= length; ++factor) {
    if (length % factor == 0) return factor;
  }
  return length;
}

template <typename T>
Error run(const FourierRows& rows, const void* in, void* out, int device, cudaStream_t stream) {
  const int64_t count = rows.count * rows.length;
  if (rows.count * rows.out_length == 0) return Error::Ok;
  const auto nbytes = static_cast<size_t>(count) * sizeof(Complex<T>);
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef first, allocate_scratch(nbytes, device));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef second, allocate_scratch(nbytes, device));
  auto *now = static_cast<Complex<T>*>(first->data), *next = static_cast<Complex<T>*>(second->data);
  load_kernel<<<blocks(count), kThreads, 0, stream>>>(rows, static_cast<const T*>(in), now);
  for (int64_t length = rows.length, inner = 1; length > 1;) {
    const int64_t radix = next_radix(length);
    pass_kernel<<<blocks(count), kThreads, 0, stream>>>(now, next, count, rows.length, length,
                                                        radix, inner, rows.forward);
    std::swap(now, next);
    length /= radix;
    inner *= radix;
  }
  store_kernel<<<blocks(rows.count * rows.out_length), kThreads, 0, stream>>>(rows, now,
                                                                              static_cast<T*>(out));
  PTERON_CUDA_RETURN_IF_ERROR(cudaGetLastError(), "a Fourier transform");
  return Error::Ok;
}

}  // namespace

Error transform_rows(const FourierRows& rows, ScalarType dtype, const void* in, void* out,
                     int device, cudaStream_t stream) {
  return dtype == ScalarType::Float ? run<float>(rows, in, out, device, stream)
                                    : run<double>(rows, in, out, device, stream);
}

}  // namespace pteron::cuda
