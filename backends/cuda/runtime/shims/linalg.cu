#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "pteron/backends/aoti/ops/linalg/linalg.h"
#include "pteron/backends/cuda/runtime/kernels/blas_context.h"
#include "pteron/backends/cuda/runtime/platform/cusolver.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/shims/items.cuh"
#include "pteron/backends/cuda/runtime/shims/launch.h"

namespace pteron::cuda {
namespace {

using aoti::LinalgCall;
using Kind = LinalgCall::Kind;

// What is left of a column-major matrix, or a new one.
enum class Fill { kUpper, kLower, kIdentity };

template <typename T>
__global__ void fill_kernel(T* a, int64_t rows, int64_t count, Fill fill) {
  for_each_item(count, [&](int64_t at) {
    const int64_t row = at % rows, col = at / rows;
    if (fill == Fill::kIdentity) {
      a[at] = row == col ? T(1) : T(0);
    } else if (fill == Fill::kUpper ? row > col : row < col) {
      a[at] = T(0);
    }
  });
}

__global__ void clamp_pivots_kernel(int32_t* pivots, int64_t rows) {
  for_each_item(rows,
                [&](int64_t i) { pivots[i] = max(1, min(pivots[i], static_cast<int32_t>(rows))); });
}

template <typename T>
__global__ void determinant_kernel(const T* lu, const int32_t* pivots, int64_t n, T* value,
                                   T* sign_of, T* logarithm_of) {
  T product = 1, sign = 1, logarithm = 0;
  for (int64_t i = 0; i < n; ++i) {
    T element = lu[i * n + i];
    if (pivots[i] != i + 1) element = -element;
    product *= element;
    sign *= element < 0 ? T(-1) : element > 0 ? T(1) : T(0);  // 0 of NaN, as torch
    logarithm += log(abs(element));
  }
  if (value) *value = product;
  if (sign_of) *sign_of = sign;
  if (logarithm_of) *logarithm_of = logarithm;
}

Error check(int status, const char* function) {
  PTERON_CHECK_OR_RETURN(status == 0, Error::Internal, "cuSOLVER: %s failed with status %d",
                         function, status);
  return Error::Ok;
}

// A handle of each device, for one call at a time: the work is queued while it is held.
class Solver final {
 public:
  Solver() : lock_(mutex()) {}

  Error open(int device, cudaStream_t stream) {
    static std::unordered_map<int, CusolverHandle> handles;
    PTERON_ASSIGN_OR_RETURN(api_, Cusolver::get());
    CusolverHandle& handle = handles[device];
    if (!handle) PTERON_RETURN_IF_ERROR(check(api_->create(&handle), "cusolverDnCreate"));
    handle_ = handle;
    return check(api_->set_stream(handle_, stream), "cusolverDnSetStream");
  }
  const Cusolver& api() const { return *api_; }
  CusolverHandle handle() const { return handle_; }

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }

  std::lock_guard<std::mutex> lock_;
  const Cusolver* api_ = nullptr;
  CusolverHandle handle_ = nullptr;
};

template <typename T, typename Function>
cublasStatus_t trsm(Function function, cublasHandle_t handle, const LinalgCall& c, const T* a,
                    T* b) {
  const T one = 1;
  const int n = static_cast<int>(c.a.rows), rows = static_cast<int>(c.b.rows);
  return function(handle, c.right ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT,
                  c.upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER,
                  c.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                  c.unit_diagonal ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, rows,
                  static_cast<int>(c.b.cols), &one, a, n, b, rows);
}

cublasStatus_t solve_triangle(const BlasContext& blas, const LinalgCall& c) {
  if (c.dtype == DType::Float) {
    return trsm(blas.api().strsm, blas.handle(), c, static_cast<const float*>(c.a.data),
                static_cast<float*>(c.b.data));
  }
  return trsm(blas.api().dtrsm, blas.handle(), c, static_cast<const double*>(c.a.data),
              static_cast<double*>(c.b.data));
}

template <typename T>
Error solve(const LinalgCall& call, int device, cudaStream_t stream) {
  Solver solver;
  PTERON_RETURN_IF_ERROR(solver.open(device, stream));
  const CusolverFunctions<T>& api = solver.api().of(T());
  const CusolverHandle handle = solver.handle();
  T *const a = static_cast<T*>(call.a.data), *const b = static_cast<T*>(call.b.data);
  T *const tau = static_cast<T*>(call.tau), *const values = static_cast<T*>(call.values);
  const int m = static_cast<int>(call.a.rows), n = static_cast<int>(call.a.cols);
  const int rows = static_cast<int>(call.b.rows), cols = static_cast<int>(call.b.cols);
  const int k = static_cast<int>(call.num_reflectors);
  const cublasFillMode_t fill = call.upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  int size = 0, status = 0;
  switch (call.kind) {
    case Kind::kLu:
      status = api.getrf_size(handle, m, n, a, m, &size);
      break;
    case Kind::kCholesky:
      status = api.potrf_size(handle, fill, n, a, n, &size);
      break;
    case Kind::kQr:
      status = api.geqrf_size(handle, m, n, a, m, &size);
      break;
    case Kind::kQ:
      status = api.orgqr_size(handle, m, n, k, a, m, tau, &size);
      break;
    case Kind::kEigh:
      status = api.syevd_size(handle, call.vectors, fill, n, a, n, values, &size);
      break;
    case Kind::kSvd:
      status = api.gesvd_size(handle, m, n, &size);
      break;
    default:
      break;
  }
  PTERON_RETURN_IF_ERROR(check(status, "a query for the size of a workspace"));
  // Behind the workspace, an info for calls that need none.
  const size_t nbytes = (static_cast<size_t>(size) * sizeof(T) + 15) / 16 * 16;
  PTERON_ASSIGN_OR_RETURN(slim::StorageRef scratch, allocate_scratch(nbytes + 16, device));
  T* const workspace = static_cast<T*>(scratch->data);
  int* const info =
      call.info ? call.info : reinterpret_cast<int*>(static_cast<char*>(scratch->data) + nbytes);
  switch (call.kind) {
    case Kind::kLu:
      return check(api.getrf(handle, m, n, a, m, workspace, call.pivots, info), "getrf");
    case Kind::kLuSolve:
      return check(api.getrs(handle, call.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, cols, a, n,
                             call.pivots, b, rows, info),
                   "getrs");
    case Kind::kCholesky:
      return check(api.potrf(handle, fill, n, a, n, workspace, size, info), "potrf");
    case Kind::kCholeskySolve:
      return check(api.potrs(handle, fill, n, cols, a, n, b, rows, info), "potrs");
    case Kind::kQr:
      return check(api.geqrf(handle, m, n, a, m, tau, workspace, size, info), "geqrf");
    case Kind::kQ:
      return check(api.orgqr(handle, m, n, k, a, m, tau, workspace, size, info), "orgqr");
    case Kind::kEigh:
      return check(api.syevd(handle, call.vectors, fill, n, a, n, values, workspace, size, info),
                   "syevd");
    case Kind::kSvd: {
      const bool whole = cols == m && call.vh.rows == n;
      const signed char job = !call.vectors ? 'N' : whole ? 'A' : 'S';
      return check(
          api.gesvd(handle, job, job, m, n, a, m, values, b, std::max(rows, 1),
                    static_cast<T*>(call.vh.data), std::max(static_cast<int>(call.vh.rows), 1),
                    workspace, size, nullptr, info),
          "gesvd");
    }
    default:
      return Error::Internal;
  }
}

template <typename T>
Error run(const LinalgCall& call, int device, cudaStream_t stream) {
  T* const a = static_cast<T*>(call.a.data);
  const int64_t count = call.a.rows * call.a.cols;
  const auto fill = [&](Fill kind) {
    return launch_items(count, stream, "filling a matrix", fill_kernel<T>, a, call.a.rows, count,
                        kind);
  };
  switch (call.kind) {
    case Kind::kTriangularSolve: {
      PTERON_ASSIGN_OR_RETURN(BlasContext * blas, BlasContext::get(device, stream));
      const cublasStatus_t status = solve_triangle(*blas, call);
      return status == CUBLAS_STATUS_SUCCESS ? Error(Error::Ok)
                                             : blas_error(blas->api(), status, "cublas trsm");
    }
    case Kind::kTriangle:
      return fill(call.upper ? Fill::kUpper : Fill::kLower);
    case Kind::kIdentity:
      return fill(Fill::kIdentity);
    case Kind::kClampPivots:
      return launch_items(call.a.rows, stream, "clamping pivots", clamp_pivots_kernel, call.pivots,
                          call.a.rows);
    case Kind::kDeterminant:
      determinant_kernel<T><<<1, 1, 0, stream>>>(
          a, call.pivots, call.a.rows, static_cast<T*>(call.determinant[0]),
          static_cast<T*>(call.determinant[1]), static_cast<T*>(call.determinant[2]));
      return launched("multiplying a diagonal");
    default:
      return solve<T>(call, device, stream);
  }
}

}  // namespace

Error linalg(const LinalgCall& call) {
  const int device = call.device.index;
  PTERON_ASSIGN_OR_RETURN(slim::CudaGuard guard, slim::CudaGuard::make(device));
  const cudaStream_t stream = slim::current_cuda_stream(device);
  return call.dtype == DType::Float ? run<float>(call, device, stream)
                                    : run<double>(call, device, stream);
}

}  // namespace pteron::cuda
