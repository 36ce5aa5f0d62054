// Linear systems: LU, Cholesky and triangular matrices.
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "pteron/backends/aoti/ops/linalg/matrices.h"
#include "pteron/backends/aoti/ops/views.h"

namespace pteron::aoti::ops {
namespace {

// Right-hand sides for the matrices `a`.
Error check_sides(const SlimTensor& a, const SlimTensor& b, bool left) {
  PTERON_RETURN_IF_ERROR(check_matrices(b, "B", false));
  PTERON_CHECK_OR_RETURN(
      a.dtype() == b.dtype() && a.size(a.dim() - 1) == b.size(b.dim() - (left ? 2 : 1)),
      Error::InvalidArgument, "found A %s and B %s, expected one dtype and as many %s of B as of A",
      a.describe().c_str(), b.describe().c_str(), left ? "rows" : "columns");
  return Error::Ok;
}

// A copy of B, broadcast to the common batch sizes of A and B.
Result<TensorPtr> copy_sides(const SlimTensor& a, const SlimTensor& b, bool row_major) {
  CommonSizes batch(2);
  PTERON_RETURN_IF_ERROR(batch.add(a, "A"));
  PTERON_RETURN_IF_ERROR(batch.add(b, "B"));
  const Span<const int64_t> common = batch;
  std::vector<int64_t> sizes(common.begin(), common.end());
  sizes.insert(sizes.end(), b.sizes().end() - 2, b.sizes().end());
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy, row_major ? make_row_major(sizes, b.dtype(), b.device())
                                                    : make_column_major(sizes, b));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, b, true));
  return copy;
}

constexpr char kBadPivot[] = "a zero or negative pivot in column";

struct Lu {
  TensorPtr factors, pivots, info;
};

Result<Lu> factor(const Kernels& kernels, const SlimTensor& a, bool check_errors) {
  Lu lu;
  PTERON_ASSIGN_OR_RETURN(lu.factors, column_major_copy(a));
  Sizes sizes(a);
  --sizes.dim;
  sizes.values[sizes.dim - 1] = std::min(a.size(a.dim() - 2), a.size(a.dim() - 1));
  PTERON_ASSIGN_OR_RETURN(lu.pivots, make_row_major(sizes, DType::Int, a.device()));
  PTERON_ASSIGN_OR_RETURN(lu.info, make_leading(a, 2, DType::Int));
  PTERON_RETURN_IF_ERROR(slim::zero_tensor(*lu.info));
  const Batch batch(*lu.factors);
  for (int64_t i = 0; i < batch.count(); ++i) {
    LinalgCall call = batch.call(Kind::kLu, i);
    call.pivots = lu.pivots->data_as<int32_t>() + i * sizes.values[sizes.dim - 1];
    call.info = lu.info->data_as<int32_t>() + i;
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  if (check_errors) {
    PTERON_RETURN_IF_ERROR(check_info(*lu.info, kBadPivot, "matrices that can be inverted"));
  }
  return lu;
}

// Pivots of a caller, which LAPACK does not check: rows of `factors`, or InvalidArgument. Devices
// that would have to synchronize take the nearest row.
Result<TensorPtr> checked_pivots(const Kernels& kernels, const SlimTensor& factors,
                                 const SlimTensor& pivots) {
  const int64_t n = factors.size(factors.dim() - 1);
  if (kernels.find_outside) {
    const std::optional<int64_t> outside = kernels.find_outside(pivots, 1, n + 1);
    PTERON_CHECK_OR_RETURN(!outside, Error::InvalidArgument,
                           "found pivot %lld, expected 1 to %lld as from lu_factor",
                           static_cast<long long>(*outside), static_cast<long long>(n));
    return slim::make_alias(pivots);
  }
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy,
                          make_row_major(pivots.sizes(), pivots.dtype(), pivots.device()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, pivots, true));
  const Batch batch(factors);
  for (int64_t i = 0; i < batch.count(); ++i) {
    LinalgCall call = batch.call(Kind::kClampPivots, i);
    call.pivots = copy->data_as<int32_t>() + i * n;
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  return copy;
}

// `factors` are column-major; so are `sides`, or row-major if they are on the left.
Error lu_solve(const Kernels& kernels, const SlimTensor& factors, const SlimTensor& pivots,
               const SlimTensor& sides, bool left, bool transposed) {
  const Batch a(factors), b(sides, !left);
  const int64_t n = factors.size(factors.dim() - 1);
  for (int64_t i = 0; i < b.count(); ++i) {
    const int64_t k = a.under(sides, i);
    LinalgCall call = a.call(Kind::kLuSolve, k);
    call.b = b[i];
    call.pivots = pivots.data_as<int32_t>() + k * n;
    call.transposed = transposed;
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  return Error::Ok;
}

// Calls linalg with each column-major right-hand side in `sides`.
Error solve_each(const Kernels& kernels, LinalgCall call, const SlimTensor& factors,
                 const SlimTensor& sides) {
  const Batch a(factors), b(sides);
  for (int64_t i = 0; i < b.count(); ++i) {
    call.a = a[a.under(sides, i)];
    call.b = b[i];
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  return Error::Ok;
}

Error determinant(const Kernels& kernels, const SlimTensor& a, TensorPtr* lu, TensorPtr* pivots,
                  std::initializer_list<TensorPtr*> results) {
  PTERON_RETURN_IF_ERROR(check_matrices(a, "A"));
  PTERON_ASSIGN_OR_RETURN(Lu factored, factor(kernels, a, false));
  for (TensorPtr* result : results) {
    if (!result) continue;
    PTERON_ASSIGN_OR_RETURN(*result, make_leading(a, 2, a.dtype()));
  }
  const Batch batch(*factored.factors);
  for (int64_t i = 0; i < batch.count(); ++i) {
    LinalgCall call = batch.call(Kind::kDeterminant, i);
    call.pivots = factored.pivots->data_as<int32_t>() + i * call.a.rows;
    void** target = call.determinant;
    for (TensorPtr* result : results) {
      const auto at = i * static_cast<int64_t>(a.item_size());
      *target++ = result ? (*result)->data_as<char>() + at : nullptr;
    }
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  PTERON_CHECK_OR_RETURN(a.size(a.dim() - 1) > 0, Error::NotSupported,
                         "found A %s, expected rows and columns", a.describe().c_str());
  *lu = std::move(factored.factors);
  *pivots = std::move(factored.pivots);
  return Error::Ok;
}

}  // namespace

Error _linalg_solve_ex(const Kernels& kernels, const SlimTensor& A, const SlimTensor& B, bool left,
                       bool check_errors, TensorPtr& result, TensorPtr& LU, TensorPtr& pivots,
                       TensorPtr& info) {
  PTERON_RETURN_IF_ERROR(check_matrices(A, "A"));
  // A batch of vectors, or one vector.
  const bool vectors =
      B.dim() == 1 ||
      (B.dim() + 1 == A.dim() && std::equal(B.sizes().begin(), B.sizes().end(), A.sizes().begin()));
  TensorPtr sides = slim::make_alias(B);
  if (vectors) {
    Sizes sizes(B), strides(B);
    std::copy(B.strides().begin(), B.strides().end(), strides.values);
    sizes.values[sizes.dim++] = 1;
    strides.values[strides.dim++] = 1;
    PTERON_RETURN_IF_ERROR(sides->set(B.storage(), sizes, strides, B.storage_offset(), B.dtype()));
  }
  PTERON_CHECK_OR_RETURN(left || !vectors, Error::InvalidArgument,
                         "found B %s on the left, expected matrices", B.describe().c_str());
  PTERON_RETURN_IF_ERROR(check_sides(A, *sides, left));
  PTERON_ASSIGN_OR_RETURN(Lu lu, factor(kernels, A, check_errors));
  PTERON_ASSIGN_OR_RETURN(result, copy_sides(A, *sides, !left));
  PTERON_RETURN_IF_ERROR(lu_solve(kernels, *lu.factors, *lu.pivots, *result, left, !left));
  if (vectors) {
    // With torch's strides: the last two dimensions of a batch of vectors are laid out as a matrix.
    const Span<const int64_t> sizes(result->sizes().data(), result->dim() - 1);
    PTERON_ASSIGN_OR_RETURN(TensorPtr out, sizes.size() > 1
                                               ? make_column_major(sizes, B)
                                               : make_row_major(sizes, B.dtype(), B.device()));
    PTERON_RETURN_IF_ERROR(sides->set(result->storage(), sizes,
                                      {result->strides().data(), sizes.size()}, 0, B.dtype()));
    PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *sides, true));
    result = std::move(out);
  }
  LU = std::move(lu.factors);
  pivots = std::move(lu.pivots);
  info = std::move(lu.info);
  return Error::Ok;
}

Error linalg_lu_factor_ex(const Kernels& kernels, const SlimTensor& A, bool pivot,
                          bool check_errors, TensorPtr& LU, TensorPtr& pivots, TensorPtr& info) {
  PTERON_RETURN_IF_ERROR(check_matrices(A, "A", false));
  PTERON_CHECK_OR_RETURN(pivot, Error::NotSupported, "found pivot false, expected true");
  PTERON_ASSIGN_OR_RETURN(Lu lu, factor(kernels, A, check_errors));
  LU = std::move(lu.factors);
  pivots = std::move(lu.pivots);
  info = std::move(lu.info);
  return Error::Ok;
}

Error linalg_lu_solve(const Kernels& kernels, const SlimTensor& LU, const SlimTensor& pivots,
                      const SlimTensor& B, bool left, bool adjoint, TensorPtr& result) {
  PTERON_RETURN_IF_ERROR(check_matrices(LU, "LU"));
  PTERON_RETURN_IF_ERROR(check_sides(LU, B, left));
  PTERON_CHECK_OR_RETURN(
      pivots.dtype() == DType::Int && pivots.dim() + 1 == LU.dim() &&
          std::equal(pivots.sizes().begin(), pivots.sizes().end(), LU.sizes().begin()) &&
          pivots.is_contiguous(),
      Error::InvalidArgument, "found pivots %s of LU %s, expected one int32 a column",
      pivots.describe().c_str(), LU.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(TensorPtr factors, column_major_copy(LU));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr rows, checked_pivots(kernels, *factors, pivots));
  PTERON_ASSIGN_OR_RETURN(result, copy_sides(LU, B, !left));
  return lu_solve(kernels, *factors, *rows, *result, left, left == adjoint);
}

Error linalg_inv_ex(const Kernels& kernels, const SlimTensor& A, bool check_errors,
                    TensorPtr& inverse, TensorPtr& info) {
  PTERON_RETURN_IF_ERROR(check_matrices(A, "A"));
  PTERON_ASSIGN_OR_RETURN(Lu lu, factor(kernels, A, check_errors));
  PTERON_ASSIGN_OR_RETURN(inverse, make_column_major(A.sizes(), A));
  PTERON_RETURN_IF_ERROR(each_matrix(kernels, Kind::kIdentity, *inverse, false));
  info = std::move(lu.info);
  return lu_solve(kernels, *lu.factors, *lu.pivots, *inverse, true, false);
}

Error _linalg_det(const Kernels& kernels, const SlimTensor& A, TensorPtr& result, TensorPtr& LU,
                  TensorPtr& pivots) {
  return determinant(kernels, A, &LU, &pivots, {&result});
}

Error _linalg_slogdet(const Kernels& kernels, const SlimTensor& A, TensorPtr& sign,
                      TensorPtr& logabsdet, TensorPtr& LU, TensorPtr& pivots) {
  return determinant(kernels, A, &LU, &pivots, {nullptr, &sign, &logabsdet});
}

Error linalg_cholesky_ex(const Kernels& kernels, const SlimTensor& self, bool upper,
                         bool check_errors, TensorPtr& L, TensorPtr& info) {
  PTERON_RETURN_IF_ERROR(check_matrices(self, "self"));
  PTERON_ASSIGN_OR_RETURN(L, column_major_copy(self));
  PTERON_ASSIGN_OR_RETURN(info, make_leading(self, 2, DType::Int));
  PTERON_RETURN_IF_ERROR(slim::zero_tensor(*info));
  const Batch batch(*L);
  for (int64_t i = 0; i < batch.count(); ++i) {
    LinalgCall call = batch.call(Kind::kCholesky, i);
    call.upper = upper;
    call.info = info->data_as<int32_t>() + i;
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  if (check_errors)
    PTERON_RETURN_IF_ERROR(check_info(*info, kBadPivot, "positive-definite matrices"));
  return each_matrix(kernels, Kind::kTriangle, *L, upper);
}

Error cholesky(const Kernels& kernels, const SlimTensor& self, bool upper, TensorPtr& L) {
  TensorPtr info;
  return linalg_cholesky_ex(kernels, self, upper, true, L, info);
}

Error cholesky_solve(const Kernels& kernels, const SlimTensor& self, const SlimTensor& input2,
                     bool upper, TensorPtr& result) {
  PTERON_RETURN_IF_ERROR(check_matrices(input2, "input2"));
  PTERON_RETURN_IF_ERROR(check_sides(input2, self, true));
  PTERON_ASSIGN_OR_RETURN(TensorPtr factors, column_major_copy(input2));
  PTERON_ASSIGN_OR_RETURN(result, copy_sides(input2, self, false));
  LinalgCall call{Kind::kCholeskySolve, self.dtype(), self.device(), {}};
  call.upper = upper;
  return solve_each(kernels, call, *factors, *result);
}

Error cholesky_inverse(const Kernels& kernels, const SlimTensor& self, bool upper,
                       TensorPtr& result) {
  PTERON_RETURN_IF_ERROR(check_matrices(self, "self"));
  PTERON_ASSIGN_OR_RETURN(TensorPtr factors, column_major_copy(self));
  PTERON_ASSIGN_OR_RETURN(result, make_column_major(self.sizes(), self));
  PTERON_RETURN_IF_ERROR(each_matrix(kernels, Kind::kIdentity, *result, false));
  LinalgCall call{Kind::kCholeskySolve, self.dtype(), self.device(), {}};
  call.upper = upper;
  return solve_each(kernels, call, *factors, *result);
}

Error linalg_solve_triangular(const Kernels& kernels, const SlimTensor& self, const SlimTensor& B,
                              bool upper, bool left, bool unitriangular, TensorPtr& result) {
  PTERON_RETURN_IF_ERROR(check_matrices(self, "A"));
  PTERON_RETURN_IF_ERROR(check_sides(self, B, left));
  PTERON_ASSIGN_OR_RETURN(TensorPtr factors, column_major_copy(self));
  PTERON_ASSIGN_OR_RETURN(result, copy_sides(self, B, false));
  LinalgCall call{Kind::kTriangularSolve, self.dtype(), self.device(), {}};
  call.upper = upper;
  call.right = !left;
  call.unit_diagonal = unitriangular;
  return solve_each(kernels, call, *factors, *result);
}

Error triangular_solve(const Kernels& kernels, const SlimTensor& self, const SlimTensor& A,
                       bool upper, bool transpose, bool unitriangular, TensorPtr& solution,
                       TensorPtr& cloned_coefficient) {
  PTERON_RETURN_IF_ERROR(check_matrices(A, "A"));
  PTERON_RETURN_IF_ERROR(check_sides(A, self, true));
  PTERON_ASSIGN_OR_RETURN(solution, copy_sides(A, self, false));
  Sizes sizes(*solution);  // of A at the batch of both
  sizes.values[sizes.dim - 1] = A.size(A.dim() - 1);
  PTERON_ASSIGN_OR_RETURN(cloned_coefficient, make_column_major(sizes, A));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*cloned_coefficient, A, true));
  LinalgCall call{Kind::kTriangularSolve, self.dtype(), self.device(), {}};
  call.upper = upper;
  call.transposed = transpose;
  call.unit_diagonal = unitriangular;
  return solve_each(kernels, call, *cloned_coefficient, *solution);
}

}  // namespace pteron::aoti::ops
