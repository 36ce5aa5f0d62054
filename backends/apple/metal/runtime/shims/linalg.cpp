#include "pteron/backends/aoti/ops/linalg/linalg.h"

#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {
namespace {

// kind: of LinalgCall. wanted: a bit per output of LinalgCall::determinant.
#define PTERON_LINALG_PARAMS                                    \
  struct LinalgParams {                                         \
    int64_t kind, rows, columns, b_rows, b_columns, reflectors; \
    int64_t upper, right, transposed, unit, wanted;             \
  };
PTERON_LINALG_PARAMS

// One thread per matrix, column-major, following LAPACK.
const char kSource[] = PTERON_TEXT(PTERON_LINALG_PARAMS) R"MTL(
// b = op(a)^-1 b, or b op(a)^-1 if `right`; a has n rows and column stride `step`.
inline void solve(device const float* a, long n, long step, device float* b, long b_rows,
                  long b_columns, bool upper, bool transposed, bool unit, bool right) {
  if (right) transposed = !transposed;
  const long down = right ? b_rows : 1, across = right ? 1 : b_rows;
  const bool from_last = upper != transposed;
  for (long c = 0; c < (right ? b_rows : b_columns); ++c) {
    for (long k = 0; k < n; ++k) {
      const long i = from_last ? n - 1 - k : k;
      float sum = b[i * down + c * across];
      for (long j = from_last ? i + 1 : 0; j < (from_last ? n : i); ++j) {
        sum -= (transposed ? a[j + i * step] : a[i + j * step]) * b[j * down + c * across];
      }
      b[i * down + c * across] = unit ? sum : sum / a[i + i * step];
    }
  }
}

inline void swap_rows(device float* x, long rows, long columns, long i, long j) {
  for (long c = 0; c < columns && i != j; ++c) {
    const float held = x[i + c * rows];
    x[i + c * rows] = x[j + c * rows];
    x[j + c * rows] = held;
  }
}

inline void factor(device float* a, device int* pivots, device int* info, long m, long n) {
  *info = 0;
  for (long k = 0; k < m && k < n; ++k) {
    long best = k;
    for (long i = k + 1; i < m; ++i) {
      if (metal::fabs(a[i + k * m]) > metal::fabs(a[best + k * m])) best = i;
    }
    pivots[k] = int(best) + 1;
    swap_rows(a, m, n, k, best);
    const float pivot = a[k + k * m];
    if (pivot == 0) {
      if (*info == 0) *info = int(k) + 1;
      continue;
    }
    for (long i = k + 1; i < m; ++i) a[i + k * m] /= pivot;
    for (long j = k + 1; j < n; ++j) {
      for (long i = k + 1; i < m; ++i) a[i + j * m] -= a[i + k * m] * a[k + j * m];
    }
  }
}

inline void factor_positive(device float* a, device int* info, long n, bool upper) {
  const long down = upper ? n : 1, across = upper ? 1 : n;
  *info = 0;
  for (long j = 0; j < n; ++j) {
    float sum = a[j * down + j * across];
    for (long k = 0; k < j; ++k) sum -= a[j * down + k * across] * a[j * down + k * across];
    if (!(sum > 0)) {
      *info = int(j) + 1;
      return;
    }
    const float root = metal::precise::sqrt(sum);
    a[j * down + j * across] = root;
    for (long i = j + 1; i < n; ++i) {
      float rest = a[i * down + j * across];
      for (long k = 0; k < j; ++k) rest -= a[i * down + k * across] * a[j * down + k * across];
      a[i * down + j * across] = rest / root;
    }
  }
}

// Applies the reflector in column k to the columns from `first` on.
inline void reflect(device float* a, long m, long n, long k, long first, float tau) {
  for (long j = first; j < n; ++j) {
    float sum = a[k + j * m];
    for (long i = k + 1; i < m; ++i) sum += a[i + k * m] * a[i + j * m];
    a[k + j * m] -= tau * sum;
    for (long i = k + 1; i < m; ++i) a[i + j * m] -= tau * sum * a[i + k * m];
  }
}

inline void make_triangle(device float* a, device float* tau, long m, long n) {
  for (long k = 0; k < m && k < n; ++k) {
    float rest = 0;
    for (long i = k + 1; i < m; ++i) rest += a[i + k * m] * a[i + k * m];
    tau[k] = 0;
    if (rest == 0) continue;
    const float first = a[k + k * m], length = metal::precise::sqrt(first * first + rest);
    const float diagonal = first < 0 ? length : -length;
    tau[k] = (diagonal - first) / diagonal;
    for (long i = k + 1; i < m; ++i) a[i + k * m] /= first - diagonal;
    reflect(a, m, n, k, k + 1, tau[k]);
    a[k + k * m] = diagonal;
  }
}

inline void make_orthogonal(device float* a, device const float* tau, long m, long n, long count) {
  for (long j = count; j < n; ++j) {
    for (long i = 0; i < m; ++i) a[i + j * m] = i == j ? 1 : 0;
  }
  for (long k = count; k-- > 0;) {
    reflect(a, m, n, k, k + 1, tau[k]);
    for (long i = 0; i < m; ++i) {
      a[i + k * m] = i < k ? 0 : i == k ? 1 - tau[k] : -tau[k] * a[i + k * m];
    }
  }
}

kernel void of_matrix(device float* a, device float* b, device int* pivots, device int* info,
                      device float* tau, device float* product, device float* sign,
                      device float* logarithm, constant LinalgParams& p,
                      uint thread_number [[thread_position_in_grid]]) {
  const long m = p.rows, n = p.columns;
  if (p.kind == 0) {
    factor(a, pivots, info, m, n);
  } else if (p.kind == 1) {
    for (long i = 0; i < n && !p.transposed; ++i) {
      swap_rows(b, p.b_rows, p.b_columns, i, pivots[i] - 1);
    }
    solve(a, n, m, b, p.b_rows, p.b_columns, p.transposed, p.transposed, !p.transposed, false);
    solve(a, n, m, b, p.b_rows, p.b_columns, !p.transposed, p.transposed, p.transposed, false);
    for (long i = n; i-- > 0 && p.transposed;) {
      swap_rows(b, p.b_rows, p.b_columns, i, pivots[i] - 1);
    }
  } else if (p.kind == 2) {
    factor_positive(a, info, n, p.upper);
  } else if (p.kind == 3) {
    solve(a, n, m, b, p.b_rows, p.b_columns, p.upper, p.upper, false, false);
    solve(a, n, m, b, p.b_rows, p.b_columns, p.upper, !p.upper, false, false);
  } else if (p.kind == 4) {
    solve(a, n, m, b, p.b_rows, p.b_columns, p.upper, p.transposed, p.unit, p.right);
  } else if (p.kind == 5) {
    make_triangle(a, tau, m, n);
  } else if (p.kind == 6) {
    make_orthogonal(a, tau, m, n, p.reflectors);
  } else if (p.kind == 9) {
    float all = 1, signs = 1, sum = 0;
    for (long i = 0; i < m; ++i) {
      const float element = pivots[i] == int(i) + 1 ? a[i + i * m] : -a[i + i * m];
      all *= element;
      signs *= element < 0 ? -1 : element > 0 ? 1 : element;
      sum += metal::precise::log(metal::fabs(element));
    }
    if (p.wanted & 1) *product = all;
    if (p.wanted & 2) *sign = signs;
    if (p.wanted & 4) *logarithm = sum;
  } else if (p.kind == 10) {
    for (long i = 0; i < m; ++i) pivots[i] = metal::max(1, metal::min(pivots[i], int(m)));
  } else {
    for (long j = 0; j < n; ++j) {
      for (long i = 0; i < m; ++i) {
        if (p.kind == 8) {
          a[i + j * m] = i == j ? 1 : 0;
        } else if (p.upper ? i > j : i < j) {
          a[i + j * m] = 0;
        }
      }
    }
  }
}
)MTL";

}  // namespace

Error linalg(const aoti::LinalgCall& call) {
  PTERON_CHECK_OR_RETURN(call.dtype == DType::Float, Error::InvalidType,
                         "%s: Metal has no such element; lower the model in another precision, or "
                         "leave the operator to another backend",
                         slim::name_of(call.dtype));
  LinalgParams params{static_cast<int64_t>(call.kind),
                      call.a.rows,
                      call.a.cols,
                      call.b.rows,
                      call.b.cols,
                      call.num_reflectors,
                      call.upper,
                      call.right,
                      call.transposed,
                      call.unit_diagonal,
                      0};
  for (int i = 0; i < 3; ++i) params.wanted |= call.determinant[i] ? int64_t{1} << i : 0;
  // Arguments that a kind does not use are arbitrary device memory.
  const auto of = [&](const void* memory) { return Argument{memory ? memory : call.a.data, 0}; };
  return launch(
      kSource, {}, "of_matrix",
      {of(call.a.data), of(call.b.data), of(call.pivots), of(call.info), of(call.tau),
       of(call.determinant[0]), of(call.determinant[1]), of(call.determinant[2]), bytes(params)},
      {1, 1, 1});
}

}  // namespace pteron::metal
