// QR, eigenvalues and singular values.
#include <algorithm>
#include <cstring>

#include "pteron/backends/aoti/ops/linalg/matrices.h"

namespace pteron::aoti::ops {
namespace {

constexpr char kNoConvergence[] = "no convergence, status";

}  // namespace

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
