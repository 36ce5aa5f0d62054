// Tensors as bundles of lines along one dimension.
//
//   const Lines lines(tensor, dim);
//   for (int64_t l = 0; l < lines.count(); ++l) {
//     T* line = data + lines.offset(l);            // element i at line[i * lines.stride()]
//   }
//
// Tensors of equal sizes have equal line numbers. A tensor of no dimensions is one line of one
// element.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::cpu {

class Lines final {
 public:
  Lines(const slim::SlimTensor& tensor, size_t dim) {
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
  // Lines that are worth a thread (parallel.h) where each element takes a few steps.
  int64_t grain() const { return std::max<int64_t>(1, 16384 / std::max<int64_t>(length_, 1)); }

  // Of the first element of line `line`.
  int64_t offset(int64_t line) const {
    int64_t offset = 0;
    for (size_t d = rank_; d-- > 0;) {
      offset += line % sizes_[d] * strides_[d];
      line /= sizes_[d];
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
