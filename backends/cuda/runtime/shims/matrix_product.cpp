#include "pteron/backends/cuda/runtime/shims/matrix_product.h"

#include "pteron/backends/cuda/runtime/execution_scope.h"
#include "pteron/backends/cuda/runtime/kernels/gemm.h"
#include "pteron/backends/cuda/runtime/kernels/strided_copy.h"
#include "pteron/backends/cuda/runtime/scratch.h"

namespace pteron::cuda {
namespace {

using slim::SlimTensor;

// An operand as the library takes it, and the scratch memory it may lie in.
struct Operand {
  GemmMatrix matrix;
  slim::StorageRef scratch;
};

MatrixView contiguous(const MatrixView& view, void* data) {
  MatrixView result = view;
  result.data = data;
  result.col_stride = 1;
  result.row_stride = view.cols;
  result.batch_stride = view.rows * view.cols;
  return result;
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

std::optional<GemmMatrix> in_place(const MatrixView& view) {
  const auto layout = matrix_layout(view.rows, view.cols, view.row_stride, view.col_stride);
  if (!layout) return std::nullopt;
  return GemmMatrix{view.data, *layout, view.batch == 1 ? 0 : view.batch_stride};
}

class Runner final {
 public:
  Runner(const MatrixProduct& product, slim::DType dtype, int device, cudaStream_t stream)
      : product_(product), item_(slim::element_size(dtype)), device_(device), stream_(stream) {
    problem_.dtype = static_cast<ScalarType>(dtype);
    problem_.batch = product.out.batch;
    problem_.m = product.out.rows;
    problem_.n = product.out.cols;
    problem_.k = product.a.cols;
    problem_.alpha = product.alpha;
    if (const ExecutionResources* scope = ExecutionScope::current()) {
      problem_.allow_tf32 = scope->allow_tf32;
      problem_.record = scope->record_products;
    }
  }

  Error run() {
    if (problem_.batch == 0 || problem_.m == 0 || problem_.n == 0) return Error::Ok;
    PTERON_RETURN_IF_ERROR(prepare_input(product_.a, &a_));
    PTERON_RETURN_IF_ERROR(prepare_input(product_.b, &b_));
    PTERON_RETURN_IF_ERROR(prepare_out());
    problem_.a = a_.matrix;
    problem_.b = b_.matrix;
    problem_.out = out_.matrix;
    if (product_.beta == 0.0 || !product_.c) {
      PTERON_RETURN_IF_ERROR(gemm(problem_, device_, stream_));
    } else {
      PTERON_RETURN_IF_ERROR(run_with_addend(*product_.c));
    }
    if (!out_.scratch) return Error::Ok;
    return strided_copy(copy_of(product_.out, out_view_, item_), stream_);
  }

 private:
  Error prepare_input(const MatrixView& view, Operand* operand) {
    if (std::optional<GemmMatrix> matrix = in_place(view)) {
      operand->matrix = *matrix;
      return Error::Ok;
    }
    PTERON_ASSIGN_OR_RETURN(operand->scratch, scratch(view));
    const MatrixView copy = contiguous(view, operand->scratch->data);
    operand->matrix = *in_place(copy);
    return strided_copy(copy_of(copy, view, item_), stream_);
  }

  Error prepare_out() {
    out_view_ = product_.out;
    if (std::optional<GemmMatrix> matrix = in_place(product_.out)) {
      out_.matrix = *matrix;
      return Error::Ok;
    }
    PTERON_ASSIGN_OR_RETURN(out_.scratch, scratch(product_.out));
    out_view_ = contiguous(product_.out, out_.scratch->data);
    out_.matrix = *in_place(out_view_);
    return Error::Ok;
  }

  Result<slim::StorageRef> scratch(const MatrixView& view) const {
    const int64_t count = view.batch * view.rows * view.cols;
    return allocate_scratch(static_cast<size_t>(count) * item_, device_);
  }

  // The addend as a bias of the epilogue, as a matrix of its own, or copied into out first.
  Error run_with_addend(const MatrixView& c) {
    problem_.beta = product_.beta;
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
    PTERON_RETURN_IF_ERROR(strided_copy(copy_of(out_view_, c, item_), stream_));
    problem_.c = out_.matrix;
    return gemm(problem_, device_, stream_);
  }

  bool is_bias(const MatrixView& c) const {
    return product_.beta == 1.0 && c.batch == 1 && c.rows > 1 && c.row_stride == 0 &&
           c.col_stride == 1 && !out_.matrix.layout.transposed;
  }

  std::optional<GemmMatrix> addend_in_place(const MatrixView& c) const {
    if (c.batch > 1 && c.batch_stride == 0) return std::nullopt;
    std::optional<GemmMatrix> matrix = in_place(c);
    if (matrix && matrix->layout.transposed != out_.matrix.layout.transposed) return std::nullopt;
    return matrix;
  }

  const MatrixProduct& product_;
  const size_t item_;
  const int device_;
  const cudaStream_t stream_;
  GemmProblem problem_;
  Operand a_, b_, out_;
  MatrixView out_view_;
};

}  // namespace

MatrixView MatrixView::of_matrix(const SlimTensor& tensor) {
  return {tensor.data(), 1, tensor.size(0), tensor.size(1), 0, tensor.stride(0), tensor.stride(1)};
}

MatrixView MatrixView::of_batch(const SlimTensor& tensor) {
  return {tensor.data(),    tensor.size(0),   tensor.size(1),  tensor.size(2),
          tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

std::optional<MatrixView> MatrixView::broadcast(const SlimTensor& tensor, const MatrixView& shape) {
  if (tensor.dim() > 3) return std::nullopt;
  const int64_t wanted[3] = {shape.batch, shape.rows, shape.cols};
  int64_t strides[3] = {0, 0, 0};
  for (size_t i = 0; i < tensor.dim(); ++i) {
    const size_t at = 3 - tensor.dim() + i;
    if (tensor.size(i) == wanted[at]) {
      strides[at] = tensor.size(i) == 1 ? 0 : tensor.stride(i);
    } else if (tensor.size(i) != 1) {
      return std::nullopt;
    }
  }
  return MatrixView{tensor.data(), wanted[0],  wanted[1], wanted[2],
                    strides[0],    strides[1], strides[2]};
}

Error run(const MatrixProduct& product, slim::DType dtype, int device, cudaStream_t stream) {
  return Runner(product, dtype, device, stream).run();
}

}  // namespace pteron::cuda
