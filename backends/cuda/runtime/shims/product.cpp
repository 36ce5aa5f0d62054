#include "pteron/backends/cuda/runtime/shims/product.h"

#include <optional>

#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/scratch.h"
#include "pteron/backends/cuda/runtime/strided_copy.h"

namespace pteron::cuda {

MatrixView view_of(const SlimTensor& tensor, const MatrixView* like) {
  int64_t sizes[3] = {1, 1, 1}, strides[3] = {0, 0, 0};
  const size_t missing = 3 - tensor.dim();
  for (size_t d = 0; d < tensor.dim(); ++d) {
    sizes[missing + d] = tensor.size(d);
    strides[missing + d] = tensor.size(d) == 1 ? 0 : tensor.stride(d);
  }
  MatrixView view{tensor.data(), sizes[0], sizes[1], sizes[2], strides[0], strides[1], strides[2]};
  if (like) {
    view.batch = like->batch;
    view.rows = like->rows;
    view.cols = like->cols;
  }
  return view;
}

std::optional<GemmMatrix> in_place(const MatrixView& view) {
  const auto layout = matrix_layout(view.rows, view.cols, view.row_stride, view.col_stride);
  if (!layout) return std::nullopt;
  return GemmMatrix{view.data, *layout, view.batch == 1 ? 0 : view.batch_stride};
}

namespace {

MatrixView contiguous(const MatrixView& view, void* data) {
  return {data, view.batch, view.rows, view.cols, view.rows * view.cols, view.cols, 1};
}

StridedCopy copy_of(const MatrixView& target, const MatrixView& source, size_t item_nbytes) {
  StridedCopy copy;
  copy.target = target.data;
  copy.source = source.data;
  copy.item_nbytes = item_nbytes;
  copy.add_dim(target.batch, target.batch_stride, source.batch_stride);
  copy.add_dim(target.rows, target.row_stride, source.row_stride);
  copy.add_dim(target.cols, target.col_stride, source.col_stride);
  return copy;
}

// A floating-point matmul with the GEMM layer. Operands with contiguous rows or columns are used in
// place; others are made contiguous by one kernel, and such an out is computed in a temporary and
// copied.
class Runner final {
 public:
  Runner(const aoti::ProductCall& call, int device, cudaStream_t stream)
      : call_(call), device_(device), stream_(stream), out_view_(view_of(call.out)) {
    const MatrixView a = view_of(call.a);
    problem_.dtype = type_of(call.a);
    problem_.batch = a.batch;
    problem_.m = a.rows;
    problem_.n = out_view_.cols;
    problem_.k = a.cols;
    problem_.alpha = call.alpha;
    if (const ExecutionResources* scope = ExecutionScope::current()) {
      problem_.allow_tf32 = scope->allow_tf32;
      problem_.record = scope->record_products;
    }
  }

  Error run() {
    slim::StorageRef a, b, out;
    PTERON_RETURN_IF_ERROR(prepare(call_.a, &problem_.a, &a));
    PTERON_RETURN_IF_ERROR(prepare(call_.b, &problem_.b, &b));
    const MatrixView wanted = out_view_;
    if (std::optional<GemmMatrix> matrix = in_place(wanted)) {
      problem_.out = *matrix;
    } else {
      PTERON_ASSIGN_OR_RETURN(out, scratch(call_.out));
      out_view_ = contiguous(wanted, out->data);
      problem_.out = *in_place(out_view_);
    }
    if (call_.c) {
      PTERON_RETURN_IF_ERROR(run_with_addend(view_of(*call_.c, &wanted)));
    } else if (call_.a.dtype() == call_.out.dtype()) {
      PTERON_RETURN_IF_ERROR(gemm(problem_, device_, stream_));
    } else {
      PTERON_RETURN_IF_ERROR(gemm_wide(problem_, device_, stream_));
    }
    if (!out) return Error::Ok;
    return strided_copy(copy_of(wanted, out_view_, call_.out.item_size()), stream_);
  }

 private:
  Error prepare(const SlimTensor& tensor, GemmMatrix* matrix, slim::StorageRef* memory) {
    const MatrixView view = view_of(tensor);
    if (std::optional<GemmMatrix> found = in_place(view)) {
      *matrix = *found;
      return Error::Ok;
    }
    PTERON_ASSIGN_OR_RETURN(*memory, scratch(tensor));
    const MatrixView copy = contiguous(view, (*memory)->data);
    *matrix = *in_place(copy);
    return strided_copy(copy_of(copy, view, tensor.item_size()), stream_);
  }

  Result<slim::StorageRef> scratch(const SlimTensor& tensor) const {
    return allocate_scratch(tensor.nbytes(), device_);
  }

  // The addend as a bias of the epilogue, as a matrix of its own, or copied into out first.
  Error run_with_addend(const MatrixView& c) {
    problem_.beta = call_.beta;
    if (problem_.k > 0) {
      GemmProblem fused = problem_;
      if (is_bias(c)) {
        fused.beta = 0.0;
        fused.bias = c.data;
      } else if (std::optional<GemmMatrix> matrix = addend_in_place(c)) {
        fused.c = *matrix;
      }
      if (fused.bias || fused.c.data) {
        Error error = gemm(fused, device_, stream_);
        if (error != Error::NotSupported) return error;
      }
    }
    PTERON_RETURN_IF_ERROR(strided_copy(copy_of(out_view_, c, call_.out.item_size()), stream_));
    problem_.c = problem_.out;
    return gemm(problem_, device_, stream_);
  }

  bool is_bias(const MatrixView& c) const {
    return call_.beta == 1.0 && c.batch == 1 && c.rows > 1 && c.row_stride == 0 &&
           c.col_stride == 1 && !problem_.out.layout.transposed;
  }

  std::optional<GemmMatrix> addend_in_place(const MatrixView& c) const {
    if (c.batch > 1 && c.batch_stride == 0) return std::nullopt;
    std::optional<GemmMatrix> matrix = in_place(c);
    if (matrix && matrix->layout.transposed != problem_.out.layout.transposed) return std::nullopt;
    return matrix;
  }

  const aoti::ProductCall& call_;
  const int device_;
  const cudaStream_t stream_;
  MatrixView out_view_;
  GemmProblem problem_;
};

}  // namespace

Error product(const aoti::ProductCall& call) {
  if (call.out.numel() == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  if (!is_gemm_type(type_of(call.a))) {
    if (call.a.dtype() != call.b.dtype()) return aoti::no_kernel_for(call.a);
    Error error = integer_product(call, scope);
    if (error == Error::InvalidType) return aoti::no_kernel_for(call.out);
    return error;
  }
  return Runner(call, scope.device(), scope.stream()).run();
}

Error scaled_product(const aoti::ScaledProductCall& call) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(call.out));
  GemmProblem problem;
  problem.dtype = ScalarType::Float8_e4m3fn;
  problem.out_dtype = type_of(call.out);
  problem.m = call.out.size(0);
  problem.n = call.out.size(1);
  problem.k = call.a.size(1);
  problem.a = {call.a.data(), {problem.k, false}};
  problem.b = {call.b.data(), {problem.k, true}};
  problem.out = {call.out.data(), {problem.n, false}};
  problem.bias = call.bias ? call.bias->data() : nullptr;
  problem.a_scale = call.scale_a.data_as<const float>();
  problem.b_scale = call.scale_b.data_as<const float>();
  problem.scale_each = call.scale_a.numel() > 1 || call.scale_b.numel() > 1;
  problem.fast_accumulation = call.fast_accumulation;
  return gemm_float8(problem, scope.device(), scope.stream());
}

}  // namespace pteron::cuda
