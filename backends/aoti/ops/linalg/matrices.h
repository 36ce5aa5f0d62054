// Batches of matrices, for the operators of this folder.
#pragma once

#include "pteron/backends/aoti/ops/linalg/linalg.h"
#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

using Kind = LinalgCall::Kind;

// InvalidArgument unless the last two dimensions are matrices, InvalidType unless they are float32 or
// float64.
Error check_matrices(const SlimTensor& tensor, const char* name, bool square = true);

// Without the last `drop` dimensions.
Result<TensorPtr> make_leading(const SlimTensor& like, size_t drop, DType dtype);
Result<TensorPtr> make_column_major(Span<const int64_t> sizes, const SlimTensor& like);

// An output with zero elements, for vectors that are not requested.
Result<TensorPtr> make_none(const SlimTensor& like);
Result<TensorPtr> transposed(const SlimTensor& tensor);
Result<TensorPtr> column_major_copy(const SlimTensor& tensor);

// The part [.., :rows, :cols].
Error corner_of(const SlimTensor& tensor, int64_t rows, int64_t cols, SlimTensor* corner);

// The address of element `i`, in memory.
void* element(const SlimTensor& tensor, int64_t i);

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

// The error if an element of `info` is not 0. Synchronizes the device.
Error check_info(const SlimTensor& info, const char* found, const char* expected);

// Calls linalg with each matrix of a column-major tensor.
Error each_matrix(const Kernels& kernels, Kind kind, const SlimTensor& tensor, bool upper);

}  // namespace pteron::aoti::ops
