#include "pteron/backends/cpu/runtime/shims/advanced_index.h"

#include "pteron/backends/aoti/slim/core/numeric.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"

namespace pteron::cpu {
namespace {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

// One index of one dimension: numbers, over a shape.
struct Index {
  size_t dim;
  TensorPtr numbers;  // int64, row-major
};

// A mask over several dimensions becomes an index for each of them.
Error add_mask(const SlimTensor& self, const SlimTensor& mask, size_t dim,
               std::vector<Index>* indices) {
  bool fits = dim + mask.dim() <= self.dim();
  for (size_t d = 0; fits && d < mask.dim(); ++d) fits = mask.size(d) == self.size(dim + d);
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument,
                         "found mask %s at dimension %zu of %s, expected equal sizes",
                         mask.describe().c_str(), dim, self.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(const std::vector<int64_t> coordinates, nonzero_coordinates(mask));
  const auto rank = static_cast<int64_t>(mask.dim());
  const int64_t count = rank ? static_cast<int64_t>(coordinates.size()) / rank : 0;
  for (int64_t d = 0; d < rank; ++d) {
    PTERON_ASSIGN_OR_RETURN(TensorPtr numbers,
                            slim::make_tensor(Span<const int64_t>(&count, 1), DType::Long));
    for (int64_t i = 0; i < count; ++i) {
      numbers->data_as<int64_t>()[i] = coordinates[static_cast<size_t>(i * rank + d)];
    }
    indices->push_back({dim + static_cast<size_t>(d), std::move(numbers)});
  }
  return Error::Ok;
}

// All indices as numbers, each with its dimension.
Result<std::vector<Index>> read_indices(const SlimTensor& self,
                                        Span<const SlimTensor* const> tensors) {
  std::vector<Index> indices;
  size_t dim = 0;
  for (const SlimTensor* tensor : tensors) {
    if (!tensor || !tensor->is_defined()) {
      ++dim;
      continue;
    }
    if (tensor->dtype() == DType::Bool || tensor->dtype() == DType::Byte) {
      PTERON_CHECK_OR_RETURN(tensor->dim() > 0, Error::NotSupported,
                             "found a mask without dimensions, expected at least one");
      PTERON_RETURN_IF_ERROR(add_mask(self, *tensor, dim, &indices));
      dim += tensor->dim();
      continue;
    }
    PTERON_CHECK_OR_RETURN(
        !slim::is_floating_point(tensor->dtype()) && !slim::is_complex(tensor->dtype()),
        Error::InvalidType, "found index %s, expected integers or a mask",
        tensor->describe().c_str());
    PTERON_ASSIGN_OR_RETURN(TensorPtr numbers, as_int64(*tensor));
    indices.push_back({dim, std::move(numbers)});
    ++dim;
  }
  PTERON_CHECK_OR_RETURN(dim <= self.dim(), Error::InvalidArgument,
                         "found indices for %zu dimensions of %s", dim, self.describe().c_str());
  return indices;
}

// The shape that the indices broadcast to.
Result<std::vector<int64_t>> common_shape(const std::vector<Index>& indices) {
  std::vector<int64_t> shape;
  for (const Index& index : indices) {
    const SlimTensor& numbers = *index.numbers;
    if (numbers.dim() > shape.size()) shape.insert(shape.begin(), numbers.dim() - shape.size(), 1);
    for (size_t d = 0; d < numbers.dim(); ++d) {
      int64_t& size = shape[shape.size() - numbers.dim() + d];
      PTERON_CHECK_OR_RETURN(
          size == numbers.size(d) || size == 1 || numbers.size(d) == 1, Error::InvalidArgument,
          "found indices that do not broadcast, %s among them", numbers.describe().c_str());
      if (size == 1) size = numbers.size(d);
    }
  }
  return shape;
}

}  // namespace

Result<TensorPtr> as_int64(const SlimTensor& tensor) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr numbers, slim::make_tensor(tensor.sizes(), DType::Long));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*numbers, tensor));
  return numbers;
}

Result<std::vector<int64_t>> nonzero_coordinates(const SlimTensor& tensor) {
  PTERON_ASSIGN_OR_RETURN(TensorPtr dense, slim::contiguous_tensor(tensor));
  std::vector<int64_t> flat;
  bool done = false;
  PTERON_DISPATCH_REAL(tensor.dtype(), T, {
    const T* data = dense->data_as<const T>();
    for (int64_t i = 0; i < dense->numel(); ++i) {
      if (static_cast<slim::accumulate_t<T>>(data[i]) != 0) flat.push_back(i);
    }
    done = true;
  });
  PTERON_CHECK_OR_RETURN(done, Error::NotSupported, "found %s, expected real numbers",
                         tensor.describe().c_str());
  std::vector<int64_t> coordinates(flat.size() * tensor.dim());
  for (size_t i = 0; i < flat.size(); ++i) {
    int64_t rest = flat[i];
    for (size_t d = tensor.dim(); d-- > 0;) {
      coordinates[i * tensor.dim() + d] = rest % tensor.size(d);
      rest /= tensor.size(d);
    }
  }
  return coordinates;
}

Result<AdvancedIndex> AdvancedIndex::make(const SlimTensor& self,
                                          Span<const SlimTensor* const> tensors) {
  PTERON_ASSIGN_OR_RETURN(std::vector<Index> indices, read_indices(self, tensors));
  PTERON_CHECK_OR_RETURN(!indices.empty(), Error::InvalidArgument,
                         "found no index, expected one for some dimension of %s",
                         self.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, common_shape(indices));
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;

  AdvancedIndex result;
  result.offsets_.assign(static_cast<size_t>(count), 0);
  std::vector<bool> indexed(self.dim(), false);
  bool neighbours = true;
  for (size_t k = 0; k < indices.size(); ++k) {
    const Index& index = indices[k];
    indexed[index.dim] = true;
    if (k > 0 && index.dim != indices[k - 1].dim + 1) neighbours = false;
    const SlimTensor& numbers = *index.numbers;
    // The numbers seen with the common shape.
    std::vector<int64_t> strides(shape.size(), 0);
    for (size_t d = 0; d < numbers.dim(); ++d) {
      if (numbers.size(d) > 1) strides[shape.size() - numbers.dim() + d] = numbers.stride(d);
    }
    const int64_t size = self.size(index.dim), stride = self.stride(index.dim);
    for (int64_t i = 0; i < count; ++i) {
      int64_t number = numbers.data_as<int64_t>()[offset_of(i, shape, strides)];
      PTERON_CHECK_OR_RETURN(number >= -size && number < size, Error::InvalidArgument,
                             "found index %lld, expected %lld to %lld for dimension %zu of %s",
                             static_cast<long long>(number), static_cast<long long>(-size),
                             static_cast<long long>(size - 1), index.dim, self.describe().c_str());
      if (number < 0) number += size;
      result.offsets_[static_cast<size_t>(i)] += number * stride;
    }
  }

  for (size_t d = 0; d < self.dim(); ++d) {
    if (indexed[d]) continue;
    const bool before = neighbours && d < indices.front().dim;
    (before ? result.outer_sizes_ : result.inner_sizes_).push_back(self.size(d));
    (before ? result.outer_strides_ : result.inner_strides_).push_back(self.stride(d));
    (before ? result.outer_count_ : result.inner_count_) *= self.size(d);
  }
  result.sizes_ = result.outer_sizes_;
  result.strides_ = result.outer_strides_;
  result.sizes_.insert(result.sizes_.end(), shape.begin(), shape.end());
  result.strides_.insert(result.strides_.end(), shape.size(), 0);
  result.sizes_.insert(result.sizes_.end(), result.inner_sizes_.begin(), result.inner_sizes_.end());
  result.strides_.insert(result.strides_.end(), result.inner_strides_.begin(),
                         result.inner_strides_.end());
  PTERON_CHECK_OR_RETURN(result.sizes_.size() <= slim::kMaxDims, Error::InvalidArgument,
                         "the result would have %zu dimensions, expected at most %zu",
                         result.sizes_.size(), slim::kMaxDims);
  return result;
}

}  // namespace pteron::cpu
