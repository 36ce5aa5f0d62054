#include "pteron/backends/aoti/ops/linalg/linalg.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "pteron/backends/cpu/runtime/kernels/openblas.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"
#include "pteron/runtime/platform/fork_mutex.h"

namespace pteron::cpu {
namespace {

using aoti::ColumnMajor;
using aoti::LinalgCall;
using Kind = LinalgCall::Kind;

constexpr int kColumnMajor = 102, kTrans = 112, kNoTrans = 111, kUpper = 121, kLower = 122,
              kNonUnit = 131, kUnit = 132, kLeft = 141, kRight = 142;

// NaN is not an error, as in torch.
bool accept_nan() {
  const auto set_nancheck = openblas_function<void (*)(int)>("LAPACKE_set_nancheck");
  if (set_nancheck) set_nancheck(0);
  return true;
}

// Functions of LAPACKE and CBLAS for float or double.
template <typename T>
struct Lapack {
  int (*getrf)(int, int, int, T*, int, int*);
  int (*getrs)(int, char, int, int, const T*, int, const int*, T*, int);
  int (*potrf)(int, char, int, T*, int);
  int (*potrs)(int, char, int, int, const T*, int, T*, int);
  int (*geqrf)(int, int, int, T*, int, T*);
  int (*orgqr)(int, int, int, int, T*, int, const T*);
  int (*syevd)(int, char, char, int, T*, int, T*);
  int (*gesdd)(int, char, int, int, T*, int, T*, T*, int, T*, int);
  void (*trsm)(int, int, int, int, int, int, int, T, const T*, int, T*, int);

  static const Lapack* get(const char* const (&names)[9]) {
    const auto find = [](const char* name, auto** function) {
      *function = openblas_function<std::decay_t<decltype(*function)>>(name);
      return *function != nullptr;
    };
    static Once<std::optional<Lapack>> opened;
    const std::optional<Lapack>& lapack = opened.get([&]() -> std::optional<Lapack> {
      Lapack all;
      const bool found = find(names[0], &all.getrf) && find(names[1], &all.getrs) &&
                         find(names[2], &all.potrf) && find(names[3], &all.potrs) &&
                         find(names[4], &all.geqrf) && find(names[5], &all.orgqr) &&
                         find(names[6], &all.syevd) && find(names[7], &all.gesdd) &&
                         find(names[8], &all.trsm) && accept_nan();
      return found ? std::optional(all) : std::nullopt;
    });
    return lapack ? &*lapack : nullptr;
  }
};

const Lapack<float>* lapack_of(float) {
  return Lapack<float>::get({"LAPACKE_sgetrf", "LAPACKE_sgetrs", "LAPACKE_spotrf", "LAPACKE_spotrs",
                             "LAPACKE_sgeqrf", "LAPACKE_sorgqr", "LAPACKE_ssyevd", "LAPACKE_sgesdd",
                             "cblas_strsm"});
}
const Lapack<double>* lapack_of(double) {
  return Lapack<double>::get({"LAPACKE_dgetrf", "LAPACKE_dgetrs", "LAPACKE_dpotrf",
                              "LAPACKE_dpotrs", "LAPACKE_dgeqrf", "LAPACKE_dorgqr",
                              "LAPACKE_dsyevd", "LAPACKE_dgesdd", "cblas_dtrsm"});
}

// Sets the elements on both sides of the diagonal.
template <typename T>
void keep_triangle(const ColumnMajor& a, bool upper) {
  for (int64_t j = 0; j < a.cols; ++j) {
    T* const column = static_cast<T*>(a.data) + j * a.rows;
    const int64_t diagonal = std::min(j, a.rows);
    upper ? std::fill(column + std::min(diagonal + 1, a.rows), column + a.rows, T(0))
          : std::fill(column, column + diagonal, T(0));
  }
}

template <typename T>
void make_identity(const ColumnMajor& a) {
  T* const data = static_cast<T*>(a.data);
  std::fill(data, data + a.rows * a.cols, T(0));
  for (int64_t i = 0; i < std::min(a.rows, a.cols); ++i) data[i * a.rows + i] = T(1);
}

template <typename T>
void determinant(const LinalgCall& call) {
  T product = 1, sign = 1, logarithm = 0;
  for (int64_t i = 0; i < call.a.rows; ++i) {
    T element = static_cast<const T*>(call.a.data)[i * call.a.rows + i];
    if (call.pivots[i] != i + 1) element = -element;
    product *= element;
    sign *= element < 0 ? T(-1) : element > 0 ? T(1) : T(0);  // 0 of NaN, as torch
    logarithm += std::log(std::abs(element));
  }
  const T values[] = {product, sign, logarithm};
  for (int k = 0; k < 3; ++k) {
    if (call.determinant[k]) *static_cast<T*>(call.determinant[k]) = values[k];
  }
}

template <typename T>
Error run(const LinalgCall& call) {
  const Lapack<T>* const lapack = lapack_of(T());
  PTERON_CHECK_OR_RETURN(lapack, Error::NotFound,
                         "linear equations need OpenBLAS: expected libscipy_openblas.so in a "
                         "directory where the dynamic linker looks");
  T *const a = static_cast<T*>(call.a.data), *const b = static_cast<T*>(call.b.data);
  T* const tau = static_cast<T*>(call.tau);
  const int m = static_cast<int>(call.a.rows), n = static_cast<int>(call.a.cols);
  const int rows = static_cast<int>(call.b.rows), cols = static_cast<int>(call.b.cols);
  const char uplo = call.upper ? 'U' : 'L', trans = call.transposed ? 'T' : 'N';
  int info = 0;
  switch (call.kind) {
    case Kind::kLu:
      *call.info = info = lapack->getrf(kColumnMajor, m, n, a, m, call.pivots);
      break;
    case Kind::kLuSolve:
      info = lapack->getrs(kColumnMajor, trans, n, cols, a, n, call.pivots, b, rows);
      break;
    case Kind::kCholesky:
      *call.info = info = lapack->potrf(kColumnMajor, uplo, n, a, n);
      break;
    case Kind::kCholeskySolve:
      info = lapack->potrs(kColumnMajor, uplo, n, cols, a, n, b, rows);
      break;
    case Kind::kTriangularSolve:
      lapack->trsm(kColumnMajor, call.right ? kRight : kLeft, call.upper ? kUpper : kLower,
                   call.transposed ? kTrans : kNoTrans, call.unit_diagonal ? kUnit : kNonUnit, rows,
                   cols, T(1), a, n, b, rows);
      break;
    case Kind::kQr:
      info = lapack->geqrf(kColumnMajor, m, n, a, m, tau);
      break;
    case Kind::kQ:
      info = lapack->orgqr(kColumnMajor, m, n, static_cast<int>(call.num_reflectors), a, m, tau);
      break;
    case Kind::kTriangle:
      keep_triangle<T>(call.a, call.upper);
      break;
    case Kind::kIdentity:
      make_identity<T>(call.a);
      break;
    case Kind::kDeterminant:
      determinant<T>(call);
      break;
    case Kind::kEigh:
      *call.info = info = lapack->syevd(kColumnMajor, call.vectors ? 'V' : 'N', uplo, n, a, n,
                                        static_cast<T*>(call.values));
      return Error::Ok;
    case Kind::kSvd: {
      // OpenBLAS does not end where an element is infinite.
      if (!std::all_of(a, a + call.a.rows * call.a.cols, [](T x) { return std::isfinite(x); })) {
        *call.info = -1;
        return Error::Ok;
      }
      const bool whole = call.b.cols == m && call.vh.rows == n;
      const auto stride = [](int64_t size) { return static_cast<int>(std::max<int64_t>(size, 1)); };
      *call.info = info =
          lapack->gesdd(kColumnMajor,
                        !call.vectors ? 'N'
                        : whole       ? 'A'
                                      : 'S',
                        m, n, a, m, static_cast<T*>(call.values), b, stride(call.b.rows),
                        static_cast<T*>(call.vh.data), stride(call.vh.rows));
      return Error::Ok;
    }
  }
  PTERON_CHECK_OR_RETURN(info >= 0, Error::Internal, "LAPACK rejects argument %d", -info);
  return Error::Ok;
}

}  // namespace

Error linalg(const LinalgCall& call) {
  return call.dtype == DType::Float ? run<float>(call) : run<double>(call);
}

}  // namespace pteron::cpu
