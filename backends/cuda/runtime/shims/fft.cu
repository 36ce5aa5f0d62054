// Mixed radix, a pass over all rows for each factor; a prime factor p takes p steps per element.
#include <utility>

#include "pteron/backends/aoti/ops/fft/fft.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

// Kernel arguments.
struct Rows {
  int64_t count, length, in_length, out_length;
  bool real_in, real_out, forward;
  double scale;
};

template <typename T>
struct Complex {
  T real, imag;
};

template <typename T>
__global__ void load_kernel(__grid_constant__ const Rows rows, const T* in, Complex<T>* out) {
  for_each_item(rows.count * rows.length, [&](int64_t i) {
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
__global__ void store_kernel(__grid_constant__ const Rows rows, const Complex<T>* in, T* out) {
  const T scale = static_cast<T>(rows.scale);
  for_each_item(rows.count * rows.out_length, [&](int64_t i) {
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
  for_each_item(count, [&](int64_t i) {
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
Error run(const Rows& rows, const void* in, void* out, const DeviceScope& scope) {
  constexpr const char* kWhat = "a Fourier transform";
  const int64_t count = rows.count * rows.length;
  if (rows.count * rows.out_length == 0) return Error::Ok;
  const auto nbytes = static_cast<size_t>(count) * sizeof(Complex<T>);
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef first, allocate_scratch(nbytes, scope.device()));
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef second, allocate_scratch(nbytes, scope.device()));
  auto *now = static_cast<Complex<T>*>(first->data), *next = static_cast<Complex<T>*>(second->data);
  PTERON_RETURN_IF_ERROR(launch_items(count, scope.stream(), kWhat, load_kernel<T>, rows,
                                      static_cast<const T*>(in), now));
  for (int64_t length = rows.length, inner = 1; length > 1;) {
    const int64_t radix = next_radix(length);
    PTERON_RETURN_IF_ERROR(launch_items(count, scope.stream(), kWhat, pass_kernel<T>, now, next,
                                        count, rows.length, length, radix, inner, rows.forward));
    std::swap(now, next);
    length /= radix;
    inner *= radix;
  }
  return launch_items(rows.count * rows.out_length, scope.stream(), kWhat, store_kernel<T>, rows,
                      now, static_cast<T*>(out));
}

}  // namespace

Error fft(const aoti::FftCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  PTERON_ASSIGN_OR_RETURN(TensorPtr in, rows_along(call.in, call.dim));
  PTERON_ASSIGN_OR_RETURN(RowResult out, RowResult::make(call.out, call.dim));
  const int64_t in_length = call.in.size(call.dim);
  const Rows rows{call.in.numel() / in_length,
                  call.length,
                  in_length,
                  call.out.size(call.dim),
                  !slim::is_complex(call.in.dtype()),
                  !slim::is_complex(call.out.dtype()),
                  call.forward,
                  call.scale};
  const DType dtype = call.in.dtype();
  const bool is_float = dtype == DType::Float || dtype == DType::ComplexFloat;
  PTERON_RETURN_IF_ERROR(
      (is_float ? run<float> : run<double>)(rows, in->data(), out.data(), scope));
  return out.finish();
}

}  // namespace pteron::cuda
