// The elements that are reduced together, and where their result goes.
//
//   PTERON_ASSIGN_OR_RETURN(Slices slices, Slices::make(self, dims, keepdim, out));
//   while (slices.next()) {
//     for_each_block<float>(slices.slice(), [&](const float* x, int64_t n) { ... });
//   }
#pragma once

#include <optional>

#include "pteron/runtime/core/result.h"
#include "pteron/runtime/kernel/convert.h"
#include "pteron/runtime/kernel/portable/arguments.h"
#include "pteron/runtime/kernel/portable/shapes.h"
#include "pteron/runtime/kernel/view.h"

namespace pteron::kernels {

class Slices final {
 public:
  // Slices of `self` along `dims` (all where none are given). Gives `out` the sizes that are left,
  // with ones for those reduced if `keepdim`.
  static Result<Slices> make(const Tensor& self, const std::optional<Ints>& dims, bool keepdim,
                             Tensor& out);
  // Along one dimension.
  static Result<Slices> make(const Tensor& self, int64_t dim, bool keepdim, Tensor& out);
  // Along one dimension, into an `out` of the same sizes: results are slices too.
  static Result<Slices> along(const Tensor& self, int64_t dim, Tensor& out);

  bool next();
  const View& slice() const { return slice_; }
  // One element, or for along() the slice of results.
  const View& result() const { return result_; }
  // Elements of each slice.
  int64_t numel() const { return slice_.numel(); }

 private:
  using Mask = std::array<bool, kMaxTensorDims>;

  static Result<Slices> make(const Tensor& self, const Mask& reduced, bool keepdim, Tensor& out);

  bool started_ = false;
  bool empty_ = false;
  size_t dim_ = 0;  // of what is left
  std::array<int64_t, kMaxTensorDims> sizes_{};
  std::array<int64_t, kMaxTensorDims> index_{};
  std::array<int64_t, kMaxTensorDims> steps_{};
  std::array<int64_t, kMaxTensorDims> result_steps_{};
  View slice_;
  View result_;
};

// f(numbers, count) over all elements, in no particular order unless the view has one dimension.
template <typename Number, typename F>
void for_each_block(const View& view, F&& f) {
  Number buffer[kBlock];
  for (Runs<1> runs({&view}); runs.next();) {
    for (int64_t i = 0; i < runs.count(); i += kBlock) {
      const int64_t count = std::min(kBlock, runs.count() - i);
      f(load_block(view.dtype, runs.data(0) + i * runs.step(0), runs.step(0), count, buffer),
        count);
    }
  }
}

}  // namespace pteron::kernels
