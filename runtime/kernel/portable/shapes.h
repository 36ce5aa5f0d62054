// Sizes and dimensions: what kernels check and compute before they touch an element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/tensor.h"
#include "pteron/runtime/kernel/portable/arguments.h"
#include "pteron/runtime/kernel/view.h"

namespace pteron::kernels {

// Sizes of at most kMaxTensorDims dimensions, held inline.
struct Shape {
  std::array<int64_t, kMaxTensorDims> sizes{};
  size_t dim = 0;

  Shape() = default;
  explicit Shape(Span<const int64_t> from);
  Span<const int64_t> span() const { return {sizes.data(), dim}; }
  int64_t numel() const;
  // InvalidArgument when there are too many.
  Error push_back(int64_t size);
};

// "[2, 3]".
std::string describe(Span<const int64_t> sizes);

// The common shape, by the rules of broadcasting; InvalidArgument.
Result<Shape> broadcast(std::initializer_list<Span<const int64_t>> shapes);

// Gives `out` the sizes that were computed. InvalidArgument if it cannot have them.
Error resize_out(Tensor& out, Span<const int64_t> sizes);

// Gives `out` the sizes of `from`, and its elements. InvalidArgument as above.
Error copy_into(const View& from, Tensor& out);

// `dim` counted from 0, of `rank` dimensions (a 0-d tensor counts as having one); InvalidArgument.
Result<size_t> normalized_dim(int64_t dim, size_t rank);

// Which dimensions are named; all of them if none is. InvalidArgument: out of range, or named
// twice.
Result<std::array<bool, kMaxTensorDims>> dim_mask(const std::optional<Ints>& dims, size_t rank);

// Contiguous elements of `tensor` in the order of its dimensions: the tensor's own, or a copy in
// `context`'s scratch memory.
Result<View> contiguous(KernelContext& context, const Tensor& tensor);

bool is_contiguous(const View& view);

}  // namespace pteron::kernels
