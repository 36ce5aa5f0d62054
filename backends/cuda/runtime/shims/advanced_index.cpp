#include "pteron/backends/cuda/runtime/shims/advanced_index.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "pteron/backends/cuda/runtime/kernels/nonzero.h"
#include "pteron/backends/cuda/runtime/shims/arguments.h"
#include "pteron/backends/cuda/runtime/shims/rows.h"

namespace pteron::cuda {
namespace {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

// Column `d` of coordinates.
Result<TensorPtr> column(const SlimTensor& coordinates, size_t d) {
  auto numbers = std::make_unique<SlimTensor>();
  const int64_t size = coordinates.size(0), stride = 1;
  PTERON_RETURN_IF_ERROR(numbers->set(coordinates.storage(), Span<const int64_t>(&size, 1),
                                      Span<const int64_t>(&stride, 1),
                                      static_cast<int64_t>(d) * size, DType::Long));
  return numbers;
}

}  // namespace

Result<TensorPtr> nonzero_coordinates(const SlimTensor& tensor) {
  PTERON_ASSIGN_OR_RETURN(DeviceScope scope, DeviceScope::make(tensor));
  PTERON_ASSIGN_OR_RETURN(TensorPtr dense, rows_along(tensor, tensor.dim() ? tensor.dim() - 1 : 0));
  PTERON_ASSIGN_OR_RETURN(const Nonzero found,
                          find_nonzero(static_cast<ScalarType>(tensor.dtype()), dense->data(),
                                       tensor.numel(), scope.device(), scope.stream()));
  const int64_t sizes[] = {found.count, static_cast<int64_t>(tensor.dim())};
  const int64_t strides[] = {1, std::max<int64_t>(found.count, 1)};
  PTERON_ASSIGN_OR_RETURN(TensorPtr coordinates,
                          slim::make_tensor(sizes, strides, DType::Long, tensor.device()));
  PTERON_RETURN_IF_ERROR(write_coordinates(found, tensor.sizes().data(),
                                           static_cast<int>(tensor.dim()),
                                           coordinates->data_as<int64_t>(), scope.stream()));
  return coordinates;
}

Result<AdvancedIndex> AdvancedIndex::make(const SlimTensor& x,
                                          Span<const SlimTensor* const> indices) {
  AdvancedIndex advanced;
  size_t dim = 0;
  for (const SlimTensor* index : indices) {
    if (index == nullptr || !index->is_defined()) {
      ++dim;
      continue;
    }
    PTERON_RETURN_IF_ERROR(advanced.add(x, *index, dim));
    const bool mask = index->dtype() == DType::Bool || index->dtype() == DType::Byte;
    dim += mask ? index->dim() : 1;
  }
  PTERON_CHECK_OR_RETURN(dim <= x.dim(), Error::InvalidArgument,
                         "found indices for %zu dimensions of %s", dim, x.describe().c_str());
  PTERON_CHECK_OR_RETURN(!advanced.numbers_.empty(), Error::InvalidArgument,
                         "found no index, expected one for some dimension of %s",
                         x.describe().c_str());
  PTERON_RETURN_IF_ERROR(advanced.broadcast());
  PTERON_RETURN_IF_ERROR(advanced.lay_out(x));
  return advanced;
}

Error AdvancedIndex::add(const SlimTensor& x, const SlimTensor& index, size_t dim) {
  if (index.dtype() == DType::Long || index.dtype() == DType::Int) {
    numbers_.push_back({dim, slim::make_alias(index)});
    return Error::Ok;
  }
  PTERON_CHECK_OR_RETURN(
      index.dtype() == DType::Bool || index.dtype() == DType::Byte, Error::InvalidType,
      "found index %s, expected int32 or int64 numbers or a mask", index.describe().c_str());
  bool fits = index.dim() > 0 && dim + index.dim() <= x.dim();
  for (size_t d = 0; fits && d < index.dim(); ++d) fits = index.size(d) == x.size(dim + d);
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument,
                         "found mask %s at dimension %zu of %s, expected equal sizes",
                         index.describe().c_str(), dim, x.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(const TensorPtr coordinates, nonzero_coordinates(index));
  for (size_t d = 0; d < index.dim(); ++d) {
    PTERON_ASSIGN_OR_RETURN(TensorPtr numbers, column(*coordinates, d));
    numbers_.push_back({dim + d, std::move(numbers)});
  }
  return Error::Ok;
}

Error AdvancedIndex::broadcast() {
  for (const Numbers& numbers : numbers_) {
    const SlimTensor& index = *numbers.tensor;
    if (index.dim() > shape_.size()) shape_.insert(shape_.begin(), index.dim() - shape_.size(), 1);
    for (size_t d = 0; d < index.dim(); ++d) {
      int64_t& size = shape_[shape_.size() - index.dim() + d];
      PTERON_CHECK_OR_RETURN(
          size == index.size(d) || size == 1 || index.size(d) == 1, Error::InvalidArgument,
          "found indices that do not broadcast, %s among them", index.describe().c_str());
      if (size == 1) size = index.size(d);
    }
  }
  return Error::Ok;
}

Error AdvancedIndex::lay_out(const SlimTensor& x) {
  bool indexed[slim::kMaxDims] = {}, neighbours = true;
  for (size_t k = 0; k < numbers_.size(); ++k) {
    indexed[numbers_[k].dim] = true;
    if (k > 0 && numbers_[k].dim != numbers_[k - 1].dim + 1) neighbours = false;
  }
  for (size_t d = 0; d < x.dim(); ++d) {
    if (neighbours && d == numbers_.front().dim) indexed_at_ = sizes_.size();
    if (indexed[d]) continue;
    sizes_.push_back(x.size(d));
    x_dims_.push_back(static_cast<int>(d));
  }
  const auto at = static_cast<std::ptrdiff_t>(indexed_at_);
  sizes_.insert(sizes_.begin() + at, shape_.begin(), shape_.end());
  x_dims_.insert(x_dims_.begin() + at, shape_.size(), -1);
  PTERON_CHECK_OR_RETURN(
      sizes_.size() <= static_cast<size_t>(kMaxIndexedDims), Error::InvalidArgument,
      "the result would have %zu dimensions, expected at most %d", sizes_.size(), kMaxIndexedDims);
  return Error::Ok;
}

void AdvancedIndex::strides_of(const SlimTensor& x, int64_t* strides) const {
  for (size_t d = 0; d < x_dims_.size(); ++d) {
    strides[d] = x_dims_[d] < 0 ? 0 : x.stride(static_cast<size_t>(x_dims_[d]));
  }
}

Indexing AdvancedIndex::indexing(const SlimTensor& x, Span<const int64_t> other_strides) const {
  int64_t x_strides[kMaxIndexedDims];
  strides_of(x, x_strides);
  Indexing result;
  for (size_t d = 0; d < sizes_.size(); ++d) {
    result.add_dim(sizes_[d], x_strides[d], other_strides[d]);
  }
  for (const Numbers& numbers : numbers_) {
    const SlimTensor& tensor = *numbers.tensor;
    IndexedDim& index = result.add_index({tensor.data(), tensor.dtype() == DType::Long},
                                         x.size(numbers.dim), x.stride(numbers.dim));
    const size_t first = indexed_at_ + shape_.size() - tensor.dim();
    for (size_t d = 0; d < tensor.dim(); ++d) {
      if (tensor.size(d) > 1) index.strides[first + d] = tensor.stride(d);
    }
  }
  return result;
}

}  // namespace pteron::cuda
