// Compiled for several instruction sets, with PTERON_ISA as the name of one and PTERON_VECTOR_BYTES
// as the width of its registers. Includes nothing with functions that other files might share.
#include <cstdint>

#include "pteron/backends/cpu/runtime/kernels/recurrent_step.h"

// libmvec's functions, within 4 ULP, where the compiler can call them.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#define PTERON_SIMD __attribute__((simd("notinbranch")))
#else
#define PTERON_SIMD
#endif

extern "C" {
PTERON_SIMD float expf(float) noexcept;
PTERON_SIMD float tanhf(float) noexcept;
PTERON_SIMD double exp(double) noexcept;
PTERON_SIMD double tanh(double) noexcept;
}

namespace pteron::cpu::PTERON_ISA {
namespace {

using aoti::RecurrentKind;

constexpr int64_t kUnits = kRecurrentUnits;
constexpr int kMostGates = 4;
// Rows of the batch, and of the weight, whose dot products are accumulated in registers: 16 of 32
// registers, or 8 of 16.
constexpr int kBatch = PTERON_VECTOR_BYTES == 64 ? 4 : 2;
constexpr int kRows = 4;

template <typename T, int kLanes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T))));
};

template <typename T, int kLanes>
inline T sum_of(typename VectorOf<T, kLanes>::type vector) {
  using Half = typename VectorOf<T, kLanes / 2>::type;
  if constexpr (kLanes == 2) {
    return vector[0] + vector[1];
  } else if constexpr (kLanes == 16) {
    const Half low = __builtin_shufflevector(vector, vector, 0, 1, 2, 3, 4, 5, 6, 7);
    const Half high = __builtin_shufflevector(vector, vector, 8, 9, 10, 11, 12, 13, 14, 15);
    return sum_of<T, 8>(low + high);
  } else if constexpr (kLanes == 8) {
    const Half low = __builtin_shufflevector(vector, vector, 0, 1, 2, 3);
    const Half high = __builtin_shufflevector(vector, vector, 4, 5, 6, 7);
    return sum_of<T, 4>(low + high);
  } else {
    const Half low = __builtin_shufflevector(vector, vector, 0, 1);
    const Half high = __builtin_shufflevector(vector, vector, 2, 3);
    return sum_of<T, 2>(low + high);
  }
}

// sums[b * stride + r] = sum of x[b, k] * weight[r, k], of kRowsB rows of x and kRowsW of the weight.
template <typename T, int kRowsB, int kRowsW>
inline void dot_products(int64_t columns, const T* x, const T* weight, T* sums, int64_t stride) {
  constexpr int kLanes = PTERON_VECTOR_BYTES / sizeof(T);
  using Vector = typename VectorOf<T, kLanes>::type;
  Vector lanes[kRowsB][kRowsW] = {};
  int64_t k = 0;
  for (; k + kLanes <= columns; k += kLanes) {
    Vector left[kRowsB];
#pragma GCC unroll 4
    for (int b = 0; b < kRowsB; ++b) {
      __builtin_memcpy(&left[b], x + b * columns + k, sizeof(Vector));
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRowsW; ++r) {
      Vector right;
      __builtin_memcpy(&right, weight + r * columns + k, sizeof(Vector));
#pragma GCC unroll 4
      for (int b = 0; b < kRowsB; ++b) lanes[b][r] += left[b] * right;
    }
  }
#pragma GCC unroll 4
  for (int b = 0; b < kRowsB; ++b) {
#pragma GCC unroll 4
    for (int r = 0; r < kRowsW; ++r) {
      T sum = sum_of<T, kLanes>(lanes[b][r]);
      for (int64_t i = k; i < columns; ++i) sum += x[b * columns + i] * weight[r * columns + i];
      sums[b * stride + r] = sum;
    }
  }
}

// Of any number of rows.
template <typename T>
inline void dot_products(int64_t batch, int64_t rows, int64_t columns, const T* x, const T* weight,
                         T* sums, int64_t stride) {
  for (int64_t r = 0; r < rows;) {
    const bool is_block = r + kRows <= rows;
    for (int64_t b = 0; b < batch;) {
      const bool is_tall = b + kBatch <= batch;
      const auto compute =
          is_block  ? is_tall ? dot_products<T, kBatch, kRows> : dot_products<T, 1, kRows>
          : is_tall ? dot_products<T, kBatch, 1>
                    : dot_products<T, 1, 1>;
      compute(columns, x + b * columns, weight + r * columns, sums + b * stride + r, stride);
      b += is_tall ? kBatch : 1;
    }
    r += is_block ? kRows : 1;
  }
}

inline float exponential(float x) { return expf(x); }
inline double exponential(double x) { return exp(x); }
inline float tangent(float x) { return tanhf(x); }
inline double tangent(double x) { return tanh(x); }

template <typename T>
inline T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

// One row of the batch, with all of its kUnits units computed and `count` of them loaded and stored.
// `sums` are of h and the weight: [gates, kUnits].
template <typename T>
inline void finish(const RecurrentStep<T>& step, int64_t row, int64_t unit, int64_t count,
                   T (*sums)[kUnits]) {
  const int gates = aoti::gates_of(step.kind);
  T input[kMostGates][kUnits] = {}, state[kUnits] = {}, out[kUnits];
  for (int g = 0; g < gates; ++g) {
    const T* const from = step.input + (row * gates + g) * step.units + unit;
    const T* const bias = step.bias ? step.bias + g * step.units + unit : nullptr;
    for (int64_t i = 0; i < count; ++i) {
      input[g][i] = from[i];
      if (bias) sums[g][i] += bias[i];
    }
  }
  T* const cell = step.cell ? step.cell + row * step.units + unit : nullptr;
  const T* const before = cell ? cell : step.hidden + row * step.outputs + unit;
  for (int64_t i = 0; i < count; ++i) state[i] = before[i];
  switch (step.kind) {
    case RecurrentKind::kLstm:
#pragma omp simd
      for (int64_t i = 0; i < kUnits; ++i) {
        state[i] = sigmoid(sums[1][i] + input[1][i]) * state[i] +
                   sigmoid(sums[0][i] + input[0][i]) * tangent(sums[2][i] + input[2][i]);
        out[i] = sigmoid(sums[3][i] + input[3][i]) * tangent(state[i]);
      }
      for (int64_t i = 0; i < count; ++i) cell[i] = state[i];
      break;
    case RecurrentKind::kGru:
#pragma omp simd
      for (int64_t i = 0; i < kUnits; ++i) {
        const T reset = sigmoid(sums[0][i] + input[0][i]);
        const T fresh = tangent(input[2][i] + reset * sums[2][i]);
        out[i] = (state[i] - fresh) * sigmoid(sums[1][i] + input[1][i]) + fresh;
      }
      break;
    case RecurrentKind::kTanh:
#pragma omp simd
      for (int64_t i = 0; i < kUnits; ++i) out[i] = tangent(sums[0][i] + input[0][i]);
      break;
    case RecurrentKind::kRelu:
      for (int64_t i = 0; i < kUnits; ++i) {
        const T sum = sums[0][i] + input[0][i];
        out[i] = sum < 0 ? 0 : sum;  // NaN stays
      }
      break;
  }
  T* const to = step.out + row * step.units + unit;
  for (int64_t i = 0; i < count; ++i) to[i] = out[i];
}

template <typename T>
void compute_step(const RecurrentStep<T>& step, int64_t begin, int64_t end) {
  const int gates = aoti::gates_of(step.kind);
  for (int64_t unit = begin; unit < end; unit += kUnits) {
    const int64_t count = unit + kUnits <= end ? kUnits : end - unit;
    for (int64_t row = 0; row < step.batch; row += kBatch) {
      const int64_t rows = row + kBatch <= step.batch ? kBatch : step.batch - row;
      T sums[kBatch][kMostGates][kUnits] = {};
      for (int g = 0; g < gates; ++g) {
        dot_products(rows, count, step.outputs, step.hidden + row * step.outputs,
                     step.weight + (g * step.units + unit) * step.outputs, sums[0][g],
                     kMostGates * kUnits);
      }
      for (int64_t b = 0; b < rows; ++b) finish(step, row + b, unit, count, sums[b]);
    }
  }
}

template <typename T>
void project(int64_t batch, int64_t columns, int64_t rows, const T* x, const T* weight, T* out,
             int64_t begin, int64_t end) {
  dot_products(batch, end - begin, columns, x, weight + begin * columns, out + begin, rows);
}

}  // namespace

const RecurrentFunctions<float>& recurrent_functions(float) {
  static constexpr RecurrentFunctions<float> functions = {compute_step<float>, project<float>};
  return functions;
}

const RecurrentFunctions<double>& recurrent_functions(double) {
  static constexpr RecurrentFunctions<double> functions = {compute_step<double>, project<double>};
  return functions;
}

}  // namespace pteron::cpu::PTERON_ISA
