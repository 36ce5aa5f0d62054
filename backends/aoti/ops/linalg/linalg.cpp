#include "pteron/backends/aoti/ops/linalg/linalg.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/views.h"

namespace pteron::aoti::ops {

using Kind = LinalgCall::Kind;

namespace {

Error check_matrices(const SlimTensor& tensor, const char* name, bool square = true) {
  const size_t n = tensor.dim();
  PTERON_CHECK_OR_RETURN(n >= 2 && (!square || tensor.size(n - 1) == tensor.size(n - 2)) &&
                             tensor.size(n - 1) <= INT32_MAX && tensor.size(n - 2) <= INT32_MAX,
                         Error::InvalidArgument,
                         "found %s %s, expected %smatrices in its last two dimensions", name,
                         tensor.describe().c_str(), square ? "square " : "");
  PTERON_CHECK_OR_RETURN(tensor.dtype() == DType::Float || tensor.dtype() == DType::Double,
                         Error::InvalidType, "found %s %s, expected float32 or float64", name,
                         tensor.describe().c_str());
  return Error::Ok;
}

// Right-hand sides for the matrices `a`.
Error check_sides(const SlimTensor& a, const SlimTensor& b, bool left) {
  PTERON_RETURN_IF_ERROR(check_matrices(b, "B", false));
  PTERON_CHECK_OR_RETURN(
      a.dtype() == b.dtype() && a.size(a.dim() - 1) == b.size(b.dim() - (left ? 2 : 1)),
      Error::InvalidArgument, "found A %s and B %s, expected one dtype and as many %s of B as of A",
      a.describe().c_str(), b.describe().c_str(), left ? "rows" : "columns");
  return Error::Ok;
}

// Without the last `drop` dimensions.
Result<TensorPtr> make_leading(const SlimTensor& like, size_t drop, DType dtype) {
  return make_row_major({like.sizes().data(), like.dim() - drop}, dtype, like.device());
}

Result<TensorPtr> make_column_major(Span<const int64_t> sizes, const SlimTensor& like) {
  int64_t strides[slim::kMaxDims];
  slim::contiguous_strides(sizes, strides);
  const size_t n = sizes.size();
  strides[n - 2] = 1;
  strides[n - 1] = std::max<int64_t>(sizes[n - 2], 1);
  return slim::make_tensor(sizes, {strides, n}, like.dtype(), like.device());
}

// What operators return in place of vectors that are not asked for.
Result<TensorPtr> make_none(const SlimTensor& like) {
  const int64_t none = 0;
  return make_row_major({&none, 1}, like.dtype(), like.device());
}

Result<TensorPtr> transposed(const SlimTensor& tensor) {
  Sizes sizes(tensor);
  int64_t strides[slim::kMaxDims];
  std::copy(tensor.strides().begin(), tensor.strides().end(), strides);
  std::swap(sizes.values[sizes.dim - 1], sizes.values[sizes.dim - 2]);
  std::swap(strides[sizes.dim - 1], strides[sizes.dim - 2]);
  return make_view(tensor, sizes, {strides, sizes.dim}, tensor.storage_offset());
}

void* element(const SlimTensor& tensor, int64_t i) {
  return tensor.data_as<char>() + i * static_cast<int64_t>(tensor.item_size());
}

// The part [.., :rows, :cols].
Error corner_of(const SlimTensor& tensor, int64_t rows, int64_t cols, SlimTensor* corner) {
  Sizes sizes(tensor);
  sizes.values[sizes.dim - 2] = rows;
  sizes.values[sizes.dim - 1] = cols;
  return corner->set(tensor.storage(), sizes, tensor.strides(), tensor.storage_offset(),
                     tensor.dtype());
}

Result<TensorPtr> column_major_copy(const SlimTensor& tensor) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr copy, make_column_major(tensor.sizes(), tensor));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*copy, tensor, true));
  return copy;
}

// The matrices of one tensor, each column-major (or row-major, viewed as its transpose).
class Batch {
 public:
  Batch(const SlimTensor& tensor, bool row_major = false) : tensor_(tensor) {
    const size_t n = tensor.dim();
    rows_ = tensor.size(n - (row_major ? 1 : 2));
    cols_ = tensor.size(n - (row_major ? 2 : 1));
  }
  int64_t count() const { return rows_ * cols_ == 0 ? 0 : tensor_.numel() / (rows_ * cols_); }
  ColumnMajor operator[](int64_t i) const {
    return {tensor_.data_as<char>() + i * rows_ * cols_ * static_cast<int64_t>(tensor_.item_size()),
            rows_, cols_};
  }
  LinalgCall call(Kind kind, int64_t i) const {
    return {kind, tensor_.dtype(), tensor_.device(), (*this)[i]};
  }
  // The index of the matrix that matrix `i` of `whole` uses when this batch is broadcast to it.
  int64_t under(const SlimTensor& whole, int64_t i) const {
    int64_t index = 0, step = 1;
    for (size_t d = 2; d < whole.dim(); ++d) {
      const int64_t size = whole.size(whole.dim() - 1 - d);
      const int64_t own = d < tensor_.dim() ? tensor_.size(tensor_.dim() - 1 - d) : 1;
      if (own > 1) index += i % size * step;
      step *= own;
      i /= size;
    }
    return index;
  }

 private:
  const SlimTensor& tensor_;
  int64_t rows_, cols_;
};

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
constexpr char kNoConvergence[] = "no convergence, status";

// Synchronizes the device.
Error check_info(const SlimTensor& info, const char* found, const char* expected) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr host, slim::make_tensor(info.sizes(), DType::Int));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*host, info));
  for (int64_t i = 0; i < host->numel(); ++i) {
    const int32_t column = host->data_as<int32_t>()[i];
    PTERON_CHECK_OR_RETURN(column == 0, Error::InvalidArgument,
                           "matrix %lld of the batch: found %s %d, expected %s",
                           static_cast<long long>(i), found, column, expected);
  }
  return Error::Ok;
}

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

Error each_matrix(const Kernels& kernels, Kind kind, const SlimTensor& tensor, bool upper) {
  const Batch batch(tensor);
  for (int64_t i = 0; i < batch.count(); ++i) {
    LinalgCall call = batch.call(kind, i);
    call.upper = upper;
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
  PTERON_CHECK_OR_RETURN(a.numel() > 0, Error::NotSupported,
                         "found A %s, expected matrices with elements", a.describe().c_str());
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
  PTERON_ASSIGN_OR_RETURN(result, copy_sides(LU, B, !left));
  return lu_solve(kernels, *factors, pivots, *result, left, left == adjoint);
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

Error linalg_qr(const Kernels& kernels, const SlimTensor& A, const char* mode, TensorPtr& Q,
                TensorPtr& R) {
  PTERON_RETURN_IF_ERROR(check_matrices(A, "A", false));
  const bool complete = std::strcmp(mode, "complete") == 0, only_r = std::strcmp(mode, "r") == 0;
  PTERON_CHECK_OR_RETURN(complete || only_r || std::strcmp(mode, "reduced") == 0,
                         Error::InvalidArgument, "found mode %s, expected reduced, complete or r",
                         mode);
  const int64_t m = A.size(A.dim() - 2), n = A.size(A.dim() - 1), k = std::min(m, n);
  PTERON_CHECK_OR_RETURN(k > 0, Error::NotSupported, "found A %s, expected rows and columns",
                         A.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(TensorPtr factored, column_major_copy(A));
  Sizes sizes(A);
  sizes.values[--sizes.dim - 1] = k;
  PTERON_ASSIGN_OR_RETURN(TensorPtr tau, make_row_major(sizes, A.dtype(), A.device()));
  const Batch batch(*factored);
  const auto tau_of = [&](int64_t i) { return element(*tau, i * k); };
  for (int64_t i = 0; i < batch.count(); ++i) {
    LinalgCall call = batch.call(Kind::kQr, i);
    call.tau = tau_of(i);
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  sizes = Sizes(A);
  const int64_t rows = complete ? m : k;
  sizes.values[sizes.dim - 2] = rows;
  SlimTensor part, target;
  PTERON_ASSIGN_OR_RETURN(R, make_column_major(sizes, A));
  PTERON_RETURN_IF_ERROR(corner_of(*factored, rows, n, &part));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*R, part, true));
  PTERON_RETURN_IF_ERROR(each_matrix(kernels, Kind::kTriangle, *R, true));
  if (only_r) {
    PTERON_ASSIGN_OR_RETURN(Q, make_none(A));
    return Error::Ok;
  }
  sizes.values[sizes.dim - 2] = m;
  sizes.values[sizes.dim - 1] = rows;
  PTERON_ASSIGN_OR_RETURN(Q, make_column_major(sizes, A));
  PTERON_RETURN_IF_ERROR(slim::zero_tensor(*Q));
  PTERON_RETURN_IF_ERROR(corner_of(*factored, m, k, &part));
  PTERON_RETURN_IF_ERROR(corner_of(*Q, m, k, &target));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(target, part, true));
  const Batch q(*Q);
  for (int64_t i = 0; i < q.count(); ++i) {
    LinalgCall call = q.call(Kind::kQ, i);
    call.tau = tau_of(i);
    call.num_reflectors = k;
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  return Error::Ok;
}

Error _linalg_eigh(const Kernels& kernels, const SlimTensor& A, const char* UPLO, bool compute_v,
                   TensorPtr& eigenvalues, TensorPtr& eigenvectors) {
  PTERON_RETURN_IF_ERROR(check_matrices(A, "A"));
  PTERON_ASSIGN_OR_RETURN(eigenvectors, column_major_copy(A));
  PTERON_ASSIGN_OR_RETURN(eigenvalues, make_leading(A, 1, A.dtype()));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr info, make_leading(A, 2, DType::Int));
  const Batch batch(*eigenvectors);
  for (int64_t i = 0; i < batch.count(); ++i) {
    LinalgCall call = batch.call(Kind::kEigh, i);
    call.upper = UPLO[0] == 'U' || UPLO[0] == 'u';
    call.vectors = compute_v;
    call.values = element(*eigenvalues, i * call.a.rows);
    call.info = info->data_as<int32_t>() + i;
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  if (batch.count() > 0) {
    PTERON_RETURN_IF_ERROR(check_info(*info, kNoConvergence, "finite matrices"));
  }
  if (compute_v) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(eigenvectors, make_none(A));
  return Error::Ok;
}

// Any driver, since each is for the same result.
Error _linalg_svd(const Kernels& kernels, const SlimTensor& A, bool full_matrices, bool compute_uv,
                  const char*, TensorPtr& U, TensorPtr& S, TensorPtr& Vh) {
  PTERON_RETURN_IF_ERROR(check_matrices(A, "A", false));
  // cuSOLVER takes no matrix with more columns than rows; and torch's Vh is row-major there.
  const bool on_cuda = A.device().type == DeviceType::CUDA;
  const bool flipped = on_cuda && A.size(A.dim() - 2) < A.size(A.dim() - 1);
  TensorPtr source = slim::make_alias(A);
  if (flipped) {
    PTERON_ASSIGN_OR_RETURN(source, transposed(A));
  }
  PTERON_ASSIGN_OR_RETURN(const TensorPtr work, column_major_copy(*source));
  Sizes sizes(*work);
  const size_t last = sizes.dim - 1;
  const int64_t m = work->size(last - 1), n = work->size(last), k = std::min(m, n);
  PTERON_CHECK_OR_RETURN(k > 0, Error::NotSupported, "found A %s, expected rows and columns",
                         A.describe().c_str());
  TensorPtr left, right;
  sizes.values[last] = full_matrices ? m : k;
  PTERON_ASSIGN_OR_RETURN(left, compute_uv ? make_column_major(sizes, A) : make_none(A));
  sizes.values[last - 1] = full_matrices ? n : k;
  sizes.values[last] = n;
  PTERON_ASSIGN_OR_RETURN(right, compute_uv ? make_column_major(sizes, A) : make_none(A));
  sizes.values[--sizes.dim - 1] = k;
  PTERON_ASSIGN_OR_RETURN(S, make_row_major(sizes, A.dtype(), A.device()));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr info, make_leading(A, 2, DType::Int));
  const Batch batch(*work);
  for (int64_t i = 0; i < batch.count(); ++i) {
    LinalgCall call = batch.call(Kind::kSvd, i);
    call.vectors = compute_uv;
    if (compute_uv) {
      call.b = Batch(*left)[i];
      call.vh = Batch(*right)[i];
    }
    call.values = element(*S, i * k);
    call.info = info->data_as<int32_t>() + i;
    PTERON_RETURN_IF_ERROR(kernels.linalg(call));
  }
  if (batch.count() > 0) {
    PTERON_RETURN_IF_ERROR(check_info(*info, kNoConvergence, "finite matrices"));
  }
  if (compute_uv && flipped) {
    PTERON_ASSIGN_OR_RETURN(const TensorPtr u, transposed(*right));
    PTERON_ASSIGN_OR_RETURN(right, transposed(*left));
    PTERON_ASSIGN_OR_RETURN(left, column_major_copy(*u));
  }
  U = std::move(left);
  if (!on_cuda) {
    Vh = std::move(right);
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(Vh, slim::contiguous_tensor(*right));
  return Error::Ok;
}

}  // namespace pteron::aoti::ops
