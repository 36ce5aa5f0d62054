#include <algorithm>
#include <string_view>
#include <utility>

#include "pteron/backends/aoti/ops/index/index.h"
#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/views.h"
#include "pteron/backends/aoti/slim/core/scalar.h"

namespace pteron::aoti::ops {

using Kind = IndexCall::Kind;

namespace {

Result<Kind> reduction_named(std::string_view name) {
  constexpr std::pair<std::string_view, Kind> kKnown[] = {{"sum", Kind::kSum},
                                                          {"prod", Kind::kProduct},
                                                          {"mean", Kind::kMean},
                                                          {"amax", Kind::kMaximum},
                                                          {"amin", Kind::kMinimum}};
  for (const auto& [known, kind] : kKnown) {
    if (name == known) return kind;
  }
  return make_error(Error::InvalidArgument,
                    "found reduce %.*s, expected sum, prod, mean, amax or amin",
                    static_cast<int>(name.size()), name.data());
}

// A 0-d tensor as a 1-d one.
Result<TensorPtr> with_dims(const SlimTensor& tensor) {
  return tensor.dim() == 0 ? flattened(tensor) : slim::make_alias(tensor);
}

// out = self with source[i] at [..., index[i], ...] along `dim`. With invalid arguments `out` is
// unchanged.
Error scatter(const Kernels& kernels, Kind kind, const SlimTensor& out, const SlimTensor& self,
              int64_t dim, const SlimTensor& index, const SlimTensor& source,
              bool include_self = true) {
  PTERON_RETURN_IF_ERROR(check_out(out, self));
  PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, self.dim()));
  PTERON_CHECK_OR_RETURN(index.dtype() == DType::Long || index.dtype() == DType::Int,
                         Error::InvalidType, "found index %s, expected int32 or int64 numbers",
                         index.describe().c_str());
  PTERON_CHECK_OR_RETURN(
      source.dtype() == self.dtype() && (kind == Kind::kWrite || !slim::is_complex(self.dtype())),
      Error::InvalidType, "found source %s, self %s, expected one dtype%s",
      source.describe().c_str(), self.describe().c_str(),
      kind == Kind::kWrite ? "" : " of real numbers");
  PTERON_ASSIGN_OR_RETURN(const TensorPtr values, apart_from(out, source));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr checked, apart_from(out, index));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr target, with_dims(out));
  PTERON_ASSIGN_OR_RETURN(TensorPtr numbers, with_dims(*checked));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr from, with_dims(*values));
  bool fits = numbers->dim() == target->dim() && numbers->dim() == from->dim();
  for (size_t k = 0; fits && k < numbers->dim(); ++k) {
    fits = numbers->size(k) <= from->size(k) && (k == d || numbers->size(k) <= target->size(k));
  }
  PTERON_CHECK_OR_RETURN(
      fits || index.numel() == 0, Error::InvalidArgument,
      "found index %s, source %s, self %s, expected an index no larger than the source, nor than "
      "self but in dimension %zu",
      index.describe().c_str(), source.describe().c_str(), self.describe().c_str(), d);
  PTERON_RETURN_IF_ERROR(check_indices(kernels, index, self, d, Negative::kOutside));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(out, self, true));
  if (index.numel() == 0) return Error::Ok;

  int64_t strides[slim::kMaxDims];
  std::copy(target->strides().begin(), target->strides().end(), strides);
  strides[d] = 0;
  Indexed to;
  PTERON_ASSIGN_OR_RETURN(to.x, make_view(*target, numbers->sizes(), {strides, target->dim()},
                                          target->storage_offset()));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr read, make_view(*from, numbers->sizes(), from->strides(),
                                                          from->storage_offset()));
  to.picked.push_back({d, target->size(d), target->stride(d), std::move(numbers)});
  return kernels.index({kind, to, *read, include_self});
}

}  // namespace

Error scatter_src_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
                      int64_t dim, const SlimTensor& index, const SlimTensor& src) {
  return scatter(kernels, Kind::kWrite, out, self, dim, index, src);
}

Error scatter_value_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
                        int64_t dim, const SlimTensor& index, double value) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr element, make_row_major({}, self.dtype(), self.device()));
  PTERON_RETURN_IF_ERROR(kernels.fill(*element, slim::Scalar::of(value)));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr source, broadcast_to(*element, "value", index.sizes()));
  return scatter(kernels, Kind::kWrite, out, self, dim, index, *source);
}

Error scatter_reduce_two_out(const Kernels& kernels, const SlimTensor& out, const SlimTensor& self,
                             int64_t dim, const SlimTensor& index, const SlimTensor& src,
                             const char* reduce, bool include_self) {
  PTERON_ASSIGN_OR_RETURN(const Kind kind, reduction_named(reduce));
  return scatter(kernels, kind, out, self, dim, index, src, include_self);
}

// As scatter_reduce with the index repeated along the other dimensions.
Error index_reduce(const Kernels& kernels, const SlimTensor& self, int64_t dim,
                   const SlimTensor& index, const SlimTensor& source, const char* reduce,
                   bool include_self, TensorPtr& out) {
  PTERON_ASSIGN_OR_RETURN(const Kind kind, reduction_named(reduce));
  PTERON_ASSIGN_OR_RETURN(const size_t d, dim_argument(dim, self.dim()));
  bool fits = index.dim() <= 1 && source.dim() == self.dim() && kind != Kind::kSum;
  for (size_t k = 0; fits && k < self.dim(); ++k) {
    fits = source.size(k) == (k == d ? index.numel() : self.size(k));
  }
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument,
                         "found self %s, index %s, source %s, reduce %s, expected a source of as "
                         "many elements along dimension %zu as the index has, else as self, and "
                         "reduce to be prod, mean, amax or amin",
                         self.describe().c_str(), index.describe().c_str(),
                         source.describe().c_str(), reduce, d);
  int64_t strides[slim::kMaxDims] = {};
  strides[d] = index.dim() == 0 ? 0 : index.stride(0);
  PTERON_ASSIGN_OR_RETURN(
      const TensorPtr numbers,
      make_view(index, source.sizes(), {strides, source.dim()}, index.storage_offset()));
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(self.sizes(), self.dtype(), self.device()));
  return scatter(kernels, kind, *out, self, dim, *numbers, source, include_self);
}

}  // namespace pteron::aoti::ops
