// Iterates over the rows of a tensor along one dimension.
//
//   const Rows rows(tensor, dim);
//   for (int64_t l = 0; l < rows.count(); ++l) {
//     T* row = data + rows.offset(l);            // element i at row[i * rows.stride()]
//   }
//
// Tensors of equal sizes have equal row indices. A 0-d tensor is one row of one element.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::cpu {

class Rows final {
 public:
  Rows(const slim::SlimTensor& tensor, size_t dim) {
    if (tensor.dim() == 0) return;
    length_ = tensor.size(dim);
    stride_ = tensor.stride(dim);
    for (size_t d = 0; d < tensor.dim(); ++d) {
      if (d == dim) continue;
      sizes_[rank_] = tensor.size(d);
      strides_[rank_] = tensor.stride(d);
      count_ *= tensor.size(d);
      ++rank_;
    }
  }

  int64_t count() const { return count_; }
  int64_t length() const { return length_; }
  int64_t stride() const { return stride_; }
  // Grain size for parallel_for if each element takes a few operations.
  int64_t grain() const { return std::max<int64_t>(1, 16384 / std::max<int64_t>(length_, 1)); }

  // Offset of the first element of row `row`.
  int64_t offset(int64_t row) const {
    int64_t offset = 0;
    for (size_t d = rank_; d-- > 0;) {
      offset += row % sizes_[d] * strides_[d];
      row /= sizes_[d];
    }
    return offset;
  }

 private:
  size_t rank_ = 0;
  int64_t count_ = 1;
  int64_t length_ = 1;
  int64_t stride_ = 1;
  int64_t sizes_[slim::kMaxDims];
  int64_t strides_[slim::kMaxDims];
};

}  // namespace pteron::cpu
