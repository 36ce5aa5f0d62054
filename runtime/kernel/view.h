// A strided view of elements in memory.
//
//   View row = view_of(input).selected(0, index);  // no bytes move
//   PTERON_RETURN_IF_ERROR(copy_elements(row, view_of(out)));
//
// Borrows the memory. Strides may be zero (a broadcast dimension) or negative. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/core/tensor.h"

namespace pteron {

struct View {
  std::byte* data = nullptr;
  ScalarType dtype = ScalarType::Float;
  size_t dim = 0;
  // Only the first `dim` entries are initialized, since views are created often.
  std::array<int64_t, kMaxTensorDims> sizes;
  std::array<int64_t, kMaxTensorDims> strides;  // in elements

  int64_t numel() const;
  Span<const int64_t> shape() const { return {sizes.data(), dim}; }

  // select(): a view of element `index` of dimension `d`, which is removed.
  View selected(size_t d, int64_t index) const;
};

View view_of(const Tensor& tensor);
// Contiguous elements at `data`.
View contiguous_view(ScalarType dtype, Span<const int64_t> sizes, void* data);

// Whether two elements of a view, or of two views, overlap. Exact also for interleaved views;
// allocates a bitmap if comparing ranges and strides is not enough.
bool overlaps_itself(const View& view);
bool share_elements(const View& a, const View& b);

// Copies between views of the same sizes and dtype. InvalidArgument: sizes or dtypes differ, or the
// views' ranges overlap without being identical.
Error copy_elements(const View& from, const View& to);

}  // namespace pteron
