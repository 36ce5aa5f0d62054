// Elements in memory, each a fixed step from the next in every dimension: what a tensor looks like
// to code that walks over it.
//
//   View from = view_of(input).permuted(dims);          // no bytes move
//   PTERON_RETURN_IF_ERROR(copy_elements(from, view_of(out)));
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
  std::array<int64_t, kMaxTensorDims> strides;  // in bytes

  int64_t numel() const;
  Span<const int64_t> shape() const { return {sizes.data(), dim}; }

  // Each returns a view of the same bytes; arguments must be in range.
  View permuted(Span<const int64_t> dims) const;
  // `count` elements of dimension `d`, from `start`, every `step`-th.
  View sliced(size_t d, int64_t start, int64_t count, int64_t step = 1) const;
  // Element `index` of dimension `d`, which goes away.
  View selected(size_t d, int64_t index) const;
  // A dimension of one element before dimension `d`.
  View unsqueezed(size_t d) const;
  // As `shape`, to which this must broadcast: missing and single dimensions get stride 0.
  View expanded(Span<const int64_t> shape) const;
};

View view_of(const Tensor& tensor);
// Contiguous elements at `data`.
View contiguous_view(ScalarType dtype, Span<const int64_t> sizes, void* data);

// Walks over views of one shape in runs: stretches along one dimension in which each view advances
// by a constant step. Dimensions are visited in the memory order of the first view, and joined
// where all views allow it, so that contiguous tensors are a single run.
//
//   for (Runs<2> runs({&out, &input}); runs.next();) f(runs.data(0), runs.step(0), runs.count());
template <size_t N>
class Runs final {
 public:
  explicit Runs(const std::array<const View*, N>& views);

  // To the next run; false when there is none.
  bool next();
  int64_t count() const { return count_; }
  std::byte* data(size_t view) const { return data_[view]; }
  int64_t step(size_t view) const { return steps_[view]; }  // in bytes

 private:
  bool started_ = false;
  bool empty_ = false;
  size_t outer_dim_ = 0;
  int64_t count_ = 1;
  std::array<std::byte*, N> data_{};
  std::array<int64_t, N> steps_{};
  // The first `outer_dim_` of each, and one more of sizes_ and strides_.
  std::array<int64_t, kMaxTensorDims> sizes_;
  std::array<int64_t, kMaxTensorDims> index_;
  std::array<std::array<int64_t, kMaxTensorDims>, N> strides_;
};

extern template class Runs<1>;
extern template class Runs<2>;
extern template class Runs<3>;
extern template class Runs<4>;

// Copies between views of the same sizes, converting where the dtypes differ. The views must not
// overlap, unless they are the same. InvalidArgument: sizes differ.
Error copy_elements(const View& from, const View& to);

}  // namespace pteron
