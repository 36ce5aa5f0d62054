#include <algorithm>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/sort/sort.h"
#include "pteron/backends/aoti/ops/unique/runs.h"
#include "pteron/backends/aoti/ops/views.h"

namespace pteron::aoti::ops {

namespace {

// A non-empty row-major tensor as a matrix with a row per index of `dim`.
Result<TensorPtr> rows_of(const SlimTensor& tensor, size_t dim) {
  Sizes sizes(tensor);
  int64_t strides[slim::kMaxDims];
  std::copy(tensor.strides().begin(), tensor.strides().end(), strides);
  std::rotate(sizes.values, sizes.values + dim, sizes.values + dim + 1);
  std::rotate(strides, strides + dim, strides + dim + 1);
  PTERON_ASSIGN_OR_RETURN(const TensorPtr turned, make_view(tensor, sizes, {strides, tensor.dim()},
                                                            tensor.storage_offset()));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr dense, slim::contiguous_tensor(*turned));
  const int64_t rows = tensor.size(dim), width = tensor.numel() / rows;
  const int64_t shape[] = {rows, width}, steps[] = {width, 1};
  return make_view(*dense, shape, steps, dense->storage_offset());
}

// Row indices in stable sorted order.
Error order_of(const Kernels& kernels, const SlimTensor& rows, TensorPtr& order) {
  const int64_t count = rows.size(0), one = 1;
  const Span<const int64_t> size(&count, 1);
  PTERON_ASSIGN_OR_RETURN(order, make_row_major(size, DType::Long, rows.device()));
  if (rows.size(1) > 1) return kernels.order_rows(rows, *order);
  PTERON_ASSIGN_OR_RETURN(const TensorPtr column,
                          make_view(rows, size, {&one, 1}, rows.storage_offset()));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr values,
                          make_row_major(size, rows.dtype(), rows.device()));
  return kernels.sort({*column, 0, false, true, count, *values, *order});
}

// Unique elements, or unique slices along `dim`. Outputs that were not requested are empty; along a
// dimension torch always computes them.
Error unique(const Kernels& kernels, const SlimTensor& self, std::optional<int64_t> dim, bool sort,
             bool with_inverse, bool with_counts, TensorPtr& values, TensorPtr& inverse,
             TensorPtr& counts) {
  PTERON_RETURN_IF_ERROR(check_ordered(self));
  PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim.value_or(0), dim ? self.dim() : 1));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr dense,
                          dim ? slim::contiguous_tensor(self) : flattened(self));
  PTERON_CHECK_OR_RETURN(
      dense->dim() > 0 && (self.numel() > 0 || dense->size(d) == 0), Error::InvalidArgument,
      "found self %s, expected elements, or none along dimension %zu", self.describe().c_str(), d);
  const int64_t n = dense->size(d), none = 0;
  const Span<const int64_t> nothing(&none, 1), line(&n, 1);
  with_inverse |= dim.has_value();
  with_counts |= dim.has_value();
  PTERON_ASSIGN_OR_RETURN(inverse, make_row_major(!with_inverse ? nothing
                                                  : dim         ? line
                                                                : self.sizes(),
                                                  DType::Long, self.device()));
  if (n == 0) {
    PTERON_ASSIGN_OR_RETURN(values, make_row_major(dense->sizes(), self.dtype(), self.device()));
    PTERON_ASSIGN_OR_RETURN(counts, make_row_major(nothing, DType::Long, self.device()));
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(const TensorPtr rows, rows_of(*dense, d));
  TensorPtr order, coordinates;
  if (sort) PTERON_RETURN_IF_ERROR(order_of(kernels, *rows, order));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr flags, make_row_major(line, DType::Bool, self.device()));
  PTERON_RETURN_IF_ERROR(kernels.mark_runs(*rows, order.get(), *flags));
  PTERON_RETURN_IF_ERROR(kernels.nonzero(*flags, coordinates));

  const int64_t all[] = {coordinates->size(0)}, but_one[] = {all[0] - 1}, steps[] = {1};
  PTERON_ASSIGN_OR_RETURN(TensorPtr starts, make_view(*coordinates, all, steps, 0));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr ends, make_view(*coordinates, but_one, steps, 1));
  PTERON_ASSIGN_OR_RETURN(counts, make_row_major(with_counts ? Span<const int64_t>(all) : nothing,
                                                 DType::Long, self.device()));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr numbers, flattened(*inverse));
  PTERON_RETURN_IF_ERROR(
      kernels.number_runs({n, *ends, order.get(), with_inverse ? numbers.get() : nullptr,
                           with_counts ? counts.get() : nullptr}));
  if (order) {
    const SlimTensor* const at[] = {starts.get()};
    TensorPtr picked;
    PTERON_RETURN_IF_ERROR(index_Tensor(kernels, *order, at, picked));
    starts = std::move(picked);
  }
  const SlimTensor* indices[slim::kMaxDims] = {};
  indices[d] = starts.get();
  return index_Tensor(kernels, *dense, Span<const SlimTensor* const>(indices, d + 1), values);
}

}  // namespace

Error _unique2(const Kernels& kernels, const SlimTensor& self, bool, bool return_inverse,
               bool return_counts, TensorPtr& values, TensorPtr& inverse, TensorPtr& counts) {
  return unique(kernels, self, std::nullopt, true, return_inverse, return_counts, values, inverse,
                counts);
}

Error unique_dim(const Kernels& kernels, const SlimTensor& self, int64_t dim, bool,
                 bool return_inverse, bool return_counts, TensorPtr& values, TensorPtr& inverse,
                 TensorPtr& counts) {
  return unique(kernels, self, dim, true, return_inverse, return_counts, values, inverse, counts);
}

Error unique_consecutive(const Kernels& kernels, const SlimTensor& self, bool return_inverse,
                         bool return_counts, std::optional<int64_t> dim, TensorPtr& values,
                         TensorPtr& inverse, TensorPtr& counts) {
  return unique(kernels, self, dim, false, return_inverse, return_counts, values, inverse, counts);
}

}  // namespace pteron::aoti::ops
