#include "pteron/backends/aoti/ops/index/index.h"

#include <algorithm>
#include <cstddef>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/views.h"
#include "pteron/backends/aoti/slim/core/scalar.h"

namespace pteron::aoti {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;
using Kind = IndexCall::Kind;

namespace {

// One index of x: integers for dimension `dim`, or a mask over `dim` and the following dimensions.
Error add_index(const Kernels& kernels, const SlimTensor& x, const SlimTensor& index, size_t dim,
                std::vector<Indexed::Picked>* picked) {
  const auto pick = [&](size_t d, TensorPtr numbers) {
    picked->push_back({d, x.size(d), x.stride(d), std::move(numbers)});
  };
  if (index.dtype() == DType::Long || index.dtype() == DType::Int) {
    PTERON_CHECK_OR_RETURN(dim < x.dim(), Error::InvalidArgument,
                           "found more indices than dimensions of %s", x.describe().c_str());
    PTERON_RETURN_IF_ERROR(check_indices(kernels, index, x, dim, Negative::kFromTheEnd));
    pick(dim, slim::make_alias(index));
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
  TensorPtr coordinates;
  PTERON_RETURN_IF_ERROR(kernels.nonzero(index, coordinates));
  for (size_t d = 0; d < index.dim(); ++d) {
    const auto column = static_cast<int64_t>(d) * coordinates->stride(1);
    PTERON_ASSIGN_OR_RETURN(TensorPtr numbers,
                            make_view(*coordinates, {coordinates->sizes().data(), 1},
                                      {coordinates->strides().data(), 1}, column));
    pick(dim + d, std::move(numbers));
  }
  return Error::Ok;
}

// Copies `initial` to `target`, then writes or adds `values`.
Error put(const Kernels& kernels, const SlimTensor& target, const SlimTensor& initial,
          Span<const SlimTensor* const> indices, const SlimTensor& values, bool accumulate) {
  PTERON_CHECK_OR_RETURN(
      values.dtype() == target.dtype() && !(accumulate && slim::is_complex(target.dtype())),
      Error::InvalidType, "found values %s, self %s, expected one dtype%s",
      values.describe().c_str(), initial.describe().c_str(), accumulate ? " of real numbers" : "");
  PTERON_ASSIGN_OR_RETURN(const Indexed to, index_into(kernels, target, indices));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr read, apart_from(target, values));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr spread, broadcast_to(*read, "values", to.x->sizes()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(target, initial, true));
  return kernels.index({accumulate ? Kind::kSum : Kind::kWrite, to, *spread});
}

}  // namespace

int64_t Indexed::reach() const {
  int64_t last = 0;
  for (size_t d = 0; d < x->dim(); ++d) last += (x->size(d) - 1) * x->stride(d);
  for (const Picked& one : picked) last += (one.size - 1) * one.stride;
  return last + 1;
}

Error check_indices(const Kernels& kernels, const SlimTensor& numbers, const SlimTensor& x,
                    size_t dim, Negative negative) {
  if (!kernels.find_outside) return Error::Ok;
  const int64_t size = size_along(x, dim), low = negative == Negative::kFromTheEnd ? -size : 0;
  const std::optional<int64_t> outside = kernels.find_outside(numbers, low, size);
  PTERON_CHECK_OR_RETURN(!outside, Error::InvalidArgument,
                         "found index %lld, expected %lld to %lld for dimension %zu of %s",
                         static_cast<long long>(*outside), static_cast<long long>(low),
                         static_cast<long long>(size - 1), dim, x.describe().c_str());
  return Error::Ok;
}

Result<Indexed> index_into(const Kernels& kernels, const SlimTensor& x,
                           Span<const SlimTensor* const> indices) {
  Indexed indexed;
  size_t dim = 0;
  for (const SlimTensor* index : indices) {
    const bool absent = !index || !index->is_defined();
    if (!absent) PTERON_RETURN_IF_ERROR(add_index(kernels, x, *index, dim, &indexed.picked));
    const bool mask = !absent && (index->dtype() == DType::Bool || index->dtype() == DType::Byte);
    dim += mask ? index->dim() : 1;
  }
  PTERON_CHECK_OR_RETURN(dim <= x.dim() && !indexed.picked.empty(), Error::InvalidArgument,
                         "found indices for %zu dimensions of %s, expected no more than it has, "
                         "and an index for one of them",
                         dim, x.describe().c_str());
  CommonSizes shape;
  for (const Indexed::Picked& picked : indexed.picked) {
    PTERON_RETURN_IF_ERROR(shape.add(*picked.numbers, "index"));
  }
  bool is_indexed[slim::kMaxDims] = {}, neighbours = true;
  for (size_t k = 0; k < indexed.picked.size(); ++k) {
    Indexed::Picked& picked = indexed.picked[k];
    PTERON_ASSIGN_OR_RETURN(picked.numbers, broadcast_to(*picked.numbers, "index", shape));
    is_indexed[picked.dim] = true;
    if (k > 0 && picked.dim != indexed.picked[k - 1].dim + 1) neighbours = false;
  }
  std::vector<int64_t> sizes, strides;
  for (size_t d = 0; d < x.dim(); ++d) {
    if (neighbours && d == indexed.picked.front().dim) indexed.first = sizes.size();
    if (is_indexed[d]) continue;
    sizes.push_back(x.size(d));
    strides.push_back(x.stride(d));
  }
  const auto first = static_cast<std::ptrdiff_t>(indexed.first);
  const Span<const int64_t> counts = shape;
  sizes.insert(sizes.begin() + first, counts.begin(), counts.end());
  strides.insert(strides.begin() + first, counts.size(), 0);
  const bool any = std::find(sizes.begin(), sizes.end(), 0) == sizes.end();
  PTERON_CHECK_OR_RETURN(x.numel() > 0 || !any, Error::InvalidArgument,
                         "found indices into %s, which has no elements", x.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(indexed.x, make_view(x, sizes, strides, x.storage_offset()));
  return indexed;
}

namespace ops {

Error index_Tensor(const Kernels& kernels, const SlimTensor& self,
                   Span<const SlimTensor* const> indices, TensorPtr& out) {
  PTERON_ASSIGN_OR_RETURN(const Indexed from, index_into(kernels, self, indices));
  PTERON_ASSIGN_OR_RETURN(out, make_ordered_like(*from.x, self.dtype()));
  return kernels.index({Kind::kRead, from, *out});
}

Error index_put(const Kernels& kernels, const SlimTensor& self,
                Span<const SlimTensor* const> indices, const SlimTensor& values, bool accumulate,
                TensorPtr& out) {
  PTERON_ASSIGN_OR_RETURN(out, make_ordered_like(self, self.dtype()));
  return put(kernels, *out, self, indices, values, accumulate);
}

Error index_put_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
                    Span<const SlimTensor* const> indices, const SlimTensor& values,
                    bool accumulate) {
  PTERON_RETURN_IF_ERROR(check_out(out, self));
  return put(kernels, out, self, indices, values, accumulate);
}

Error nonzero(const Kernels& kernels, const SlimTensor& self, TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(!slim::is_complex(self.dtype()), Error::InvalidType,
                         "found self %s, expected real numbers", self.describe().c_str());
  return kernels.nonzero(self, out);
}

// The first `size` rows of nonzero(), padded with rows of `fill_value`.
Error nonzero_static(const Kernels& kernels, const SlimTensor& self, int64_t size,
                     int64_t fill_value, TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(size >= 0, Error::InvalidArgument, "found size %lld, expected 0 or more",
                         static_cast<long long>(size));
  TensorPtr found;
  PTERON_RETURN_IF_ERROR(nonzero(kernels, self, found));
  int64_t sizes[] = {size, static_cast<int64_t>(self.dim())};
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(sizes, DType::Long, self.device()));
  PTERON_RETURN_IF_ERROR(kernels.fill(*out, slim::Scalar::of(fill_value)));
  sizes[0] = std::min(size, found->size(0));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr to, make_view(*out, sizes, out->strides(), 0));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr from, make_view(*found, sizes, found->strides(), 0));
  return slim::copy_tensor(*to, *from, true);
}

}  // namespace ops
}  // namespace pteron::aoti
