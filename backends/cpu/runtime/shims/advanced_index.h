// Indexing by tensors, as x[i, :, j] means it.
//
//   PTERON_ASSIGN_OR_RETURN(AdvancedIndex indexing, AdvancedIndex::make(self, indices));
//   indexing.for_each(self, [&](int64_t from, int64_t to) { out[to] = data[from]; });
//
// Indices are integers (negative ones count from the end) or masks, absent ones stand for a whole
// dimension. The indexed dimensions of the result stand where the first one stood if they are
// neighbours, else in front.
#pragma once

#include <cstdint>
#include <vector>

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::cpu {

// A row-major copy of `tensor` in int64.
Result<slim::TensorPtr> as_int64(const slim::SlimTensor& tensor);

class AdvancedIndex final {
 public:
  // InvalidArgument: shapes that do not fit; an index out of bounds, which is checked here for all.
  static Result<AdvancedIndex> make(const slim::SlimTensor& self,
                                    Span<const slim::SlimTensor* const> indices);

  // Of the result.
  Span<const int64_t> sizes() const { return sizes_; }
  // With which `self` is read there, 0 for the indexed dimensions; in elements.
  Span<const int64_t> strides() const { return strides_; }
  // Offset into `self` that the indexed dimensions add, one for each combination of indices,
  // row-major.
  const std::vector<int64_t>& offsets() const { return offsets_; }

  // Calls body(offset into self, position in the row-major result) for every element of the result.
  template <typename Body>
  void for_each(const Body& body) const {
    int64_t position = 0;
    for (int64_t outer = 0; outer < outer_count_; ++outer) {
      const int64_t before = offset_of(outer, outer_sizes_, outer_strides_);
      for (const int64_t indexed : offsets_) {
        if (inner_sizes_.size() == 1) {
          for (int64_t i = 0; i < inner_count_; ++i) {
            body(before + indexed + i * inner_strides_[0], position++);
          }
          continue;
        }
        for (int64_t inner = 0; inner < inner_count_; ++inner) {
          body(before + indexed + offset_of(inner, inner_sizes_, inner_strides_), position++);
        }
      }
    }
  }

 private:
  static int64_t offset_of(int64_t index, const std::vector<int64_t>& sizes,
                           const std::vector<int64_t>& strides) {
    int64_t offset = 0;
    for (size_t d = sizes.size(); d-- > 0;) {
      offset += index % sizes[d] * strides[d];
      index /= sizes[d];
    }
    return offset;
  }

  std::vector<int64_t> sizes_, strides_;
  std::vector<int64_t> outer_sizes_, outer_strides_;  // whole dimensions before the indexed ones
  std::vector<int64_t> inner_sizes_, inner_strides_;  // and after them
  int64_t outer_count_ = 1, inner_count_ = 1;
  std::vector<int64_t> offsets_;
};

// Coordinates of the elements that are not zero, in row-major order: `dim` numbers each.
Result<std::vector<int64_t>> nonzero_coordinates(const slim::SlimTensor& tensor);

}  // namespace pteron::cpu
