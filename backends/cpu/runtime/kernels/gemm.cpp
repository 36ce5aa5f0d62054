#include "pteron/backends/cpu/runtime/kernels/gemm.h"

#include <algorithm>
#include <type_traits>

#include "cblas.h"
#include "pteron/backends/cpu/runtime/kernels/openblas.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron::cpu {
namespace {

using slim::BFloat16;
using slim::Half;
using slim::is_small_float_v;

// Below this many multiplications a plain loop is faster than a call of the library.
constexpr int64_t kTinyProduct = 2048;
// From this many on a second thread is used.
constexpr int64_t kProductPerThread = 256 * 1024;

template <typename T>
constexpr bool is_blas_v = std::is_same_v<T, float> || std::is_same_v<T, double>;

struct Blas {
  decltype(&scipy_cblas_sgemm) sgemm;
  decltype(&scipy_cblas_dgemm) dgemm;
};

// Null where there is none.
const Blas* blas() {
  static Once<Blas> opened;
  const Blas& functions = opened.get([] {
    return Blas{openblas_function<decltype(&scipy_cblas_sgemm)>("cblas_sgemm"),
                openblas_function<decltype(&scipy_cblas_dgemm)>("cblas_dgemm")};
  });
  return functions.sgemm ? &functions : nullptr;
}

template <typename T>
void scale(double beta, Matrix<T> out) {
  for (int64_t i = 0; i < out.rows; ++i) {
    for (int64_t j = 0; j < out.cols; ++j) {
      T& element = out.data[i * out.row_stride + j * out.col_stride];
      if constexpr (is_small_float_v<T>) {
        element = T(beta == 0 ? 0.0f : static_cast<float>(beta) * static_cast<float>(element));
      } else {
        element = beta == 0 ? T(0) : static_cast<T>(static_cast<T>(beta) * element);
      }
    }
  }
}

// Integers wrap: they are multiplied as unsigned.
template <typename T>
using wrapping_t = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>,
                                      std::make_unsigned_t<std::conditional_t<
                                          std::is_integral_v<T> && !std::is_same_v<T, bool>,
                                          std::conditional_t<sizeof(T) < 4, int32_t, T>, int32_t>>,
                                      slim::accumulate_t<T>>;

// The reference implementation, for all other cases.
template <typename T>
void gemm_loop(double alpha, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> out) {
  using Sum = wrapping_t<T>;
  constexpr int64_t kWidth = 64;
  const Sum scale_sum = static_cast<Sum>(static_cast<slim::accumulate_t<T>>(alpha));
  for (int64_t i = 0; i < out.rows; ++i) {
    for (int64_t j0 = 0; j0 < out.cols; j0 += kWidth) {
      const int64_t width = std::min(kWidth, out.cols - j0);
      Sum sums[kWidth] = {};
      for (int64_t k = 0; k < a.cols; ++k) {
        const Sum left = static_cast<Sum>(a.data[i * a.row_stride + k * a.col_stride]);
        const T* right = b.data + k * b.row_stride + j0 * b.col_stride;
        if (b.col_stride == 1) {
          for (int64_t j = 0; j < width; ++j) sums[j] += left * static_cast<Sum>(right[j]);
        } else {
          for (int64_t j = 0; j < width; ++j) {
            sums[j] += left * static_cast<Sum>(right[j * b.col_stride]);
          }
        }
      }
      for (int64_t j = 0; j < width; ++j) {
        T& element = out.data[i * out.row_stride + (j0 + j) * out.col_stride];
        Sum sum = scale_sum * sums[j];
        if (beta != 0) {
          sum += static_cast<Sum>(static_cast<slim::accumulate_t<T>>(beta)) *
                 static_cast<Sum>(element);
        }
        element = static_cast<T>(sum);
      }
    }
  }
}

// b is column-major, as a transposed weight: dot products of rows of a and columns of b.
template <typename T>
void gemm_dots(double alpha, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> out) {
  for (int64_t i = 0; i < out.rows; ++i) {
    const T* left = a.data + i * a.row_stride;
    for (int64_t j = 0; j < out.cols; ++j) {
      const T* right = b.data + j * b.col_stride;
      constexpr int kLanes = 8;
      T lanes[kLanes] = {};
      int64_t k = 0;
      for (; k + kLanes <= a.cols; k += kLanes) {
        for (int l = 0; l < kLanes; ++l) lanes[l] += left[k + l] * right[k + l];
      }
      T sum = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
              ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
      for (; k < a.cols; ++k) sum += left[k] * right[k];
      T& element = out.data[i * out.row_stride + j * out.col_stride];
      element = static_cast<T>(alpha) * sum + (beta == 0 ? T(0) : static_cast<T>(beta) * element);
    }
  }
}

template <typename T>
bool is_blas_matrix(const Matrix<const T>& m) {
  const bool rows = m.col_stride == 1 && m.row_stride >= std::max<int64_t>(m.cols, 1);
  const bool cols = m.row_stride == 1 && m.col_stride >= std::max<int64_t>(m.rows, 1);
  return (rows || cols) && m.rows <= INT32_MAX && m.cols <= INT32_MAX &&
         m.row_stride <= INT32_MAX && m.col_stride <= INT32_MAX;
}

// The stride of a dimension of size 1 is arbitrary, but the library checks the leading dimension.
template <typename T>
Matrix<T> normalized(Matrix<T> m) {
  if (m.rows == 1) m.row_stride = m.col_stride == 1 ? std::max<int64_t>(m.cols, 1) : 1;
  if (m.cols == 1) m.col_stride = m.row_stride == 1 ? std::max<int64_t>(m.rows, 1) : 1;
  if (m.rows == 1 && m.cols == 1) m.row_stride = m.col_stride = 1;
  return m;
}

template <typename T>
void copy_rows(Matrix<const T> from, T* to) {
  for (int64_t i = 0; i < from.rows; ++i) {
    for (int64_t j = 0; j < from.cols; ++j) {
      to[i * from.cols + j] = from.data[i * from.row_stride + j * from.col_stride];
    }
  }
}

template <typename T>
void call_blas(const Blas& blas, double alpha, Matrix<const T> a, Matrix<const T> b, double beta,
               Matrix<T> out) {
  const auto transposition = [](const Matrix<const T>& m) {
    return m.col_stride == 1 ? CblasNoTrans : CblasTrans;
  };
  const auto leading = [](const Matrix<const T>& m) {
    return static_cast<blasint>(
        std::max<int64_t>(m.col_stride == 1 ? m.row_stride : m.col_stride, 1));
  };
  const auto m = static_cast<blasint>(out.rows), n = static_cast<blasint>(out.cols),
             k = static_cast<blasint>(a.cols);
  if constexpr (std::is_same_v<T, float>) {
    blas.sgemm(CblasRowMajor, transposition(a), transposition(b), m, n, k,
               static_cast<float>(alpha), a.data, leading(a), b.data, leading(b),
               static_cast<float>(beta), out.data, static_cast<blasint>(out.row_stride));
  } else {
    blas.dgemm(CblasRowMajor, transposition(a), transposition(b), m, n, k, alpha, a.data,
               leading(a), b.data, leading(b), beta, out.data,
               static_cast<blasint>(out.row_stride));
  }
}

template <typename T>
void gemm_blas(const Blas& blas, double alpha, Matrix<const T> a, Matrix<const T> b, double beta,
               Matrix<T> out) {
  a = normalized(a);
  b = normalized(b);
  out = normalized(out);
  if (out.col_stride != 1 && out.row_stride == 1) {
    return gemm_blas<T>(blas, alpha, b.transposed(), a.transposed(), beta, out.transposed());
  }
  // Operands that the library cannot access are copied.
  if (!is_blas_matrix(a) && a.rows * a.cols > 0) {
    Scratch<T> copy(a.rows * a.cols);
    copy_rows(a, copy.data());
    return gemm_blas<T>(blas, alpha, {copy.data(), a.rows, a.cols, a.cols, 1}, b, beta, out);
  }
  if (!is_blas_matrix(b)) {
    Scratch<T> copy(b.rows * b.cols);
    copy_rows(b, copy.data());
    return gemm_blas<T>(blas, alpha, a, {copy.data(), b.rows, b.cols, b.cols, 1}, beta, out);
  }
  if (out.col_stride != 1 || out.cols > out.row_stride || out.row_stride > INT32_MAX) {
    Scratch<T> copy(out.rows * out.cols);
    if (beta != 0)
      copy_rows<T>({out.data, out.rows, out.cols, out.row_stride, out.col_stride}, copy.data());
    gemm_blas<T>(blas, alpha, a, b, beta, {copy.data(), out.rows, out.cols, out.cols, 1});
    for (int64_t i = 0; i < out.rows; ++i) {
      for (int64_t j = 0; j < out.cols; ++j) {
        out.data[i * out.row_stride + j * out.col_stride] = copy[i * out.cols + j];
      }
    }
    return;
  }
  call_blas(blas, alpha, a, b, beta, out);
}

template <typename T>
void widen(Matrix<const T> from, float* to) {
  for (int64_t i = 0; i < from.rows; ++i) {
    const T* row = from.data + i * from.row_stride;
    for (int64_t j = 0; j < from.cols; ++j) {
      to[i * from.cols + j] = static_cast<float>(row[j * from.col_stride]);
    }
  }
}

// 16-bit floats are converted panel by panel, so that the copies stay in cache.
template <typename T>
void gemm_widened(double alpha, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> out) {
  constexpr int64_t kPanel = 256;
  Scratch<float> left(std::min(out.rows, kPanel) * a.cols);
  Scratch<float> right(std::min(out.cols, kPanel) * a.cols);
  Scratch<float> product(std::min(out.rows, kPanel) * std::min(out.cols, kPanel));
  for (int64_t j = 0; j < out.cols; j += kPanel) {
    const int64_t cols = std::min(kPanel, out.cols - j);
    // Keeps k innermost if it is in b, so that conversion is sequential.
    const Matrix<const T> panel = b.block(0, j, b.rows, cols);
    const bool by_columns = b.row_stride == 1;
    widen(by_columns ? panel.transposed() : panel, right.data());
    const Matrix<const float> wide =
        by_columns ? Matrix<const float>{right.data(), b.rows, cols, 1, b.rows}
                   : Matrix<const float>{right.data(), b.rows, cols, cols, 1};
    for (int64_t i = 0; i < out.rows; i += kPanel) {
      const int64_t rows = std::min(kPanel, out.rows - i);
      widen(a.block(i, 0, rows, a.cols), left.data());
      gemm_serial<float>(1.0, {left.data(), rows, a.cols, a.cols, 1}, wide, 0.0,
                         {product.data(), rows, cols, cols, 1});
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          T& element = out.data[(i + r) * out.row_stride + (j + c) * out.col_stride];
          float value = static_cast<float>(alpha) * product[r * cols + c];
          if (beta != 0) value += static_cast<float>(beta) * static_cast<float>(element);
          element = T(value);
        }
      }
    }
  }
}

}  // namespace

template <typename T>
void gemm_serial(double alpha, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> out) {
  if (out.rows == 0 || out.cols == 0) return;
  if (a.cols == 0) return scale(beta, out);
  if constexpr (is_blas_v<T>) {
    if (out.rows * out.cols * a.cols <= kTinyProduct) {
      if (a.col_stride == 1 && b.row_stride == 1) return gemm_dots<T>(alpha, a, b, beta, out);
      return gemm_loop<T>(alpha, a, b, beta, out);
    }
    if (const Blas* found = blas()) return gemm_blas<T>(*found, alpha, a, b, beta, out);
    gemm_loop<T>(alpha, a, b, beta, out);
  } else if constexpr (is_small_float_v<T>) {
    gemm_widened<T>(alpha, a, b, beta, out);
  } else {
    gemm_loop<T>(alpha, a, b, beta, out);
  }
}

template <typename T>
void gemm(double alpha, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> out) {
  const int64_t work = out.rows * out.cols * std::max<int64_t>(a.cols, 1);
  const int64_t threads =
      work < 2 * kProductPerThread ? 1 : std::min<int64_t>(max_threads(), work / kProductPerThread);
  if (threads <= 1) return gemm_serial<T>(alpha, a, b, beta, out);
  // Split along the longer side of out, in steps that suit the library's kernels.
  constexpr int64_t kStep = 16;
  const bool by_columns = out.cols >= out.rows;
  const int64_t steps = ((by_columns ? out.cols : out.rows) + kStep - 1) / kStep;
  parallel_for(steps, (steps + threads - 1) / threads, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kStep;
    if (by_columns) {
      const int64_t count = std::min(end * kStep, out.cols) - first;
      gemm_serial<T>(alpha, a, b.block(0, first, b.rows, count), beta,
                     out.block(0, first, out.rows, count));
    } else {
      const int64_t count = std::min(end * kStep, out.rows) - first;
      gemm_serial<T>(alpha, a.block(first, 0, count, a.cols), b, beta,
                     out.block(first, 0, count, out.cols));
    }
  });
}

template <typename T>
void gemm_batch(int64_t count, double alpha, Matrix<const T> a, int64_t a_step, Matrix<const T> b,
                int64_t b_step, double beta, Matrix<T> out, int64_t out_step) {
  const auto shifted = [](auto m, int64_t step) {
    m.data += step;
    return m;
  };
  const int64_t work = out.rows * out.cols * std::max<int64_t>(a.cols, 1);
  // A few large GEMMs are each split among threads instead of distributed.
  if (count == 1 || (count < 2 * max_threads() && work >= 4 * kProductPerThread)) {
    for (int64_t n = 0; n < count; ++n) {
      gemm<T>(alpha, shifted(a, n * a_step), shifted(b, n * b_step), beta,
              shifted(out, n * out_step));
    }
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kProductPerThread / std::max<int64_t>(work, 1));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      gemm_serial<T>(alpha, shifted(a, n * a_step), shifted(b, n * b_step), beta,
                     shifted(out, n * out_step));
    }
  });
}

#define PTERON_INSTANTIATE(T)                                                                      \
  template void gemm<T>(double, Matrix<const T>, Matrix<const T>, double, Matrix<T>);              \
  template void gemm_serial<T>(double, Matrix<const T>, Matrix<const T>, double, Matrix<T>);       \
  template void gemm_batch<T>(int64_t, double, Matrix<const T>, int64_t, Matrix<const T>, int64_t, \
                              double, Matrix<T>, int64_t);
PTERON_INSTANTIATE(float)
PTERON_INSTANTIATE(double)
PTERON_INSTANTIATE(Half)
PTERON_INSTANTIATE(BFloat16)
PTERON_INSTANTIATE(uint8_t)
PTERON_INSTANTIATE(int8_t)
PTERON_INSTANTIATE(int16_t)
PTERON_INSTANTIATE(int32_t)
PTERON_INSTANTIATE(int64_t)
#undef PTERON_INSTANTIATE

}  // namespace pteron::cpu
