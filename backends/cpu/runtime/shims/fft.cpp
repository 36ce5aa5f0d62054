#include "pteron/backends/aoti/ops/fft/fft.h"

#include <complex>

#include "pteron/backends/cpu/runtime/kernels/fft.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

template <typename T>
void transform_rows(const aoti::FftCall& call) {
  using Complex = std::complex<T>;
  const Rows in(call.in, call.dim), out(call.out, call.dim);
  const FftPlan<T> plan(call.length, call.forward);
  const bool real_in = !slim::is_complex(call.in.dtype()),
             real_out = !slim::is_complex(call.out.dtype());
  const T scale = static_cast<T>(call.scale);
  // For real input the first coefficient is real, and for even lengths the middle one, also with
  // NaN.
  const auto is_real = [&](int64_t i) { return i == 0 || 2 * i == call.length; };
  parallel_for(in.count(), 4096 / call.length + 1, [&](int64_t begin, int64_t end) {
    Scratch<Complex> row(call.length), work(plan.work_size());
    for (int64_t l = begin; l < end; ++l) {
      const int64_t from = in.offset(l), to = out.offset(l);
      for (int64_t i = 0; i < in.length(); ++i) {
        row[i] = real_in ? Complex(call.in.data_as<T>()[from + i * in.stride()])
                         : call.in.data_as<Complex>()[from + i * in.stride()];
        if (real_out && is_real(i)) row[i] = row[i].real();
      }
      for (int64_t i = in.length(); i < call.length; ++i) row[i] = std::conj(row[call.length - i]);
      plan.run(row.data(), work.data());
      for (int64_t i = 0; i < out.length(); ++i) {
        const Complex value = real_in && is_real(i) ? row[i].real() * scale : row[i] * scale;
        if (real_out) {
          call.out.data_as<T>()[to + i * out.stride()] = value.real();
        } else {
          call.out.data_as<Complex>()[to + i * out.stride()] = value;
        }
      }
    }
  });
}

}  // namespace

Error fft(const aoti::FftCall& call) {
  const DType dtype = call.in.dtype();
  if (dtype == DType::Float || dtype == DType::ComplexFloat) {
    transform_rows<float>(call);
  } else {
    transform_rows<double>(call);
  }
  return Error::Ok;
}

}  // namespace pteron::cpu
