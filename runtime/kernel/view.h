// Elements in memory, each a fixed step from the next in every dimension: what a tensor looks like
// to code that walks over it.
//
//   View row = view_of(input).selected(0, index);  // no bytes move
//   PTERON_RETURN_IF_ERROR(copy_elements(row, view_of(out)));
//
// Borrows the bytes. A step may be zero (a broadcast dimension) or negative. Not thread-safe.
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
  // The first `dim` of each; the others are not even initialised, since views are made all the
  // time.
  std::array<int64_t, kMaxTensorDims> sizes;
  std::array<int64_t, kMaxTensorDims> strides;  // in elements

  int64_t numel() const;
  Span<const int64_t> shape() const { return {sizes.data(), dim}; }

  // A view of the same bytes: element `index` of dimension `d`, which goes away.
  View selected(size_t d, int64_t index) const;
};

View view_of(const Tensor& tensor);
// Contiguous elements at `data`.
View contiguous_view(ScalarType dtype, Span<const int64_t> sizes, void* data);

// Whether two elements of a view, or an element of each of two views, have a byte in common. Exact,
// so that views that lie between each other's elements do not; a bit for each byte is allocated
// where their ends do not tell.
bool overlaps_itself(const View& view);
bool share_elements(const View& a, const View& b);

// Copies between views of the same sizes and dtype. InvalidArgument: sizes or dtypes differ, or the
// views overlap (the memory between their ends does) without being the same.
Error copy_elements(const View& from, const View& to);

}  // namespace pteron
