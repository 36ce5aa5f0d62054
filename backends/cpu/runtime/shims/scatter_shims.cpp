// Scattering along a dimension: out[..., index[..., i, ...], ...] takes in src[..., i, ...].
// `out` may be `self`; indices are all checked before it is written.
#include <algorithm>
#include <string_view>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/scalar.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/rows.h"
#include "pteron/backends/cpu/runtime/kernels/scratch.h"
#include "pteron/backends/cpu/runtime/kernels/sort.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"

namespace pteron::cpu {
namespace {

enum class Reduction { kReplace, kSum, kProduct, kMean, kMaximum, kMinimum };

Result<Reduction> reduction_named(const char* name) {
  const std::string_view text = name ? name : "";
  if (text == "sum") return Reduction::kSum;
  if (text == "prod") return Reduction::kProduct;
  if (text == "mean") return Reduction::kMean;
  if (text == "amax") return Reduction::kMaximum;
  if (text == "amin") return Reduction::kMinimum;
  return make_error(Error::NotSupported, "found reduce %s, expected sum, prod, mean, amax or amin",
                    name ? name : "null");
}

struct Scatter {
  const SlimTensor* out;
  const SlimTensor* index;  // int64, row-major
  const SlimTensor* source;
  size_t dim;
};

// Calls body(offset in out, offset in source) for every index. `source` is read at the index's
// sizes.
template <typename Body>
void for_each_index(const Scatter& s, const Body& body) {
  const SlimTensor& index = *s.index;
  const int64_t* numbers = index.data_as<const int64_t>();
  int64_t at[slim::kMaxDims] = {0};
  for (int64_t i = 0; i < index.numel(); ++i) {
    int64_t to = 0, from = 0;
    for (size_t d = 0; d < index.dim(); ++d) {
      from += at[d] * s.source->stride(d);
      to += (d == s.dim ? numbers[i] : at[d]) * s.out->stride(d);
    }
    body(index.dim() == 0 ? numbers[i] * 0 : to, from);
    for (size_t d = index.dim(); d-- > 0;) {
      if (++at[d] < index.size(d)) break;
      at[d] = 0;
    }
  }
}

template <typename T>
T combine(Reduction reduction, T a, T b) {
  using Wide = slim::accumulate_t<T>;
  const Wide x = a, y = b;
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kMean:
      return static_cast<T>(x + y);
    case Reduction::kProduct:
      return static_cast<T>(x * y);
    case Reduction::kMaximum:
      return is_nan(a) || x >= y ? a : b;
    case Reduction::kMinimum:
      return is_nan(a) || x <= y ? a : b;
    default:
      return b;
  }
}

template <typename T>
void reduce(const Scatter& s, Reduction reduction, bool include_self) {
  T* const out = s.out->data_as<T>();
  const T* const source = s.source->data_as<const T>();
  if (reduction == Reduction::kReplace) {
    return for_each_index(s, [&](int64_t to, int64_t from) { out[to] = source[from]; });
  }
  // How often each element was written, by offset; `out` is without gaps or row-major, so offsets
  // are few.
  const Result<size_t> extent = slim::storage_nbytes(s.out->sizes(), s.out->strides(), DType::Byte);
  const auto offsets = static_cast<int64_t>(extent.ok() ? *extent : 0);
  Scratch<int64_t> count(offsets);
  std::fill(count.data(), count.data() + offsets, include_self ? 1 : 0);
  for_each_index(s, [&](int64_t to, int64_t from) {
    out[to] = count[to] == 0 ? source[from] : combine(reduction, out[to], source[from]);
    ++count[to];
  });
  if (reduction != Reduction::kMean) return;
  for_each_index(s, [&](int64_t to, int64_t) {
    if (count[to] <= 0) return;
    using Wide = slim::accumulate_t<T>;
    if constexpr (std::is_integral_v<T>) {
      // Rounded towards minus infinity.
      const auto sum = static_cast<int64_t>(out[to]);
      const int64_t quotient = sum / count[to];
      out[to] = static_cast<T>(quotient - (sum % count[to] < 0 ? 1 : 0));
    } else {
      out[to] = static_cast<T>(static_cast<Wide>(out[to]) / static_cast<Wide>(count[to]));
    }
    count[to] = -1;  // once
  });
}

Error check_scatter(AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle index,
                    size_t dim) {
  const bool same = out->dim() == self->dim() && out->dtype() == self->dtype() &&
                    std::equal(out->sizes().begin(), out->sizes().end(), self->sizes().begin());
  PTERON_CHECK_OR_RETURN(same, Error::InvalidArgument,
                         "found out %s, self %s, expected equal dtypes and sizes",
                         out->describe().c_str(), self->describe().c_str());
  bool fits = std::max<size_t>(index->dim(), 1) == std::max<size_t>(self->dim(), 1);
  for (size_t d = 0; fits && d < std::min(index->dim(), self->dim()); ++d) {
    fits = d == dim || index->size(d) <= self->size(d);
  }
  PTERON_CHECK_OR_RETURN(
      fits || index->numel() == 0, Error::InvalidArgument,
      "found index %s, expected none larger than self but in dimension %zu: self %s",
      index->describe().c_str(), dim, self->describe().c_str());
  return Error::Ok;
}

// `source` has the index's sizes or more in every dimension, and any strides.
Error scatter(AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
              const SlimTensor& source, Reduction reduction, bool include_self) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(out, "out"));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(index, "index"));
  PTERON_ASSIGN_OR_RETURN(const size_t d, aoti::dim_argument(dim, self->dim()));
  PTERON_RETURN_IF_ERROR(check_scatter(out, self, index, d));
  PTERON_CHECK_OR_RETURN(index->dtype() == DType::Long || index->dtype() == DType::Int,
                         Error::InvalidType, "found index %s, expected int32 or int64 numbers",
                         index->describe().c_str());
  bool fits = source.dim() == index->dim() && source.dtype() == self->dtype();
  for (size_t k = 0; fits && k < index->dim(); ++k) fits = index->size(k) <= source.size(k);
  PTERON_CHECK_OR_RETURN(fits || index->numel() == 0, Error::InvalidArgument,
                         "found source %s, index %s, self %s, expected an index no larger than the "
                         "source, and source and self of one dtype",
                         source.describe().c_str(), index->describe().c_str(),
                         self->describe().c_str());
  PTERON_ASSIGN_OR_RETURN(TensorPtr numbers, slim::make_tensor(index->sizes(), DType::Long));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*numbers, *index));
  const int64_t size = self->dim() == 0 ? 1 : self->size(d);
  for (int64_t i = 0; i < numbers->numel(); ++i) {
    const int64_t number = numbers->data_as<int64_t>()[i];
    PTERON_CHECK_OR_RETURN(number >= 0 && number < size, Error::InvalidArgument,
                           "found index %lld, expected 0 to %lld for dimension %zu of %s",
                           static_cast<long long>(number), static_cast<long long>(size - 1), d,
                           self->describe().c_str());
  }
  // A source that shares memory with out is read before it changes.
  TensorPtr copy;
  const SlimTensor* from = &source;
  if (slim::may_overlap(*out, source)) {
    PTERON_ASSIGN_OR_RETURN(copy, slim::clone_tensor(source));
    from = copy.get();
  }
  if (out != self) PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, *self));
  if (index->numel() == 0) return Error::Ok;
  const Scatter s{out, numbers.get(), from, d};
  bool done = false;
  PTERON_DISPATCH_REAL(self->dtype(), T, {
    reduce<T>(s, reduction, include_self);
    done = true;
  });
  return done ? Error(Error::Ok) : PTERON_CPU_NO_DTYPE(self);
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu_scatter_src_out)
(AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
 AtenTensorHandle src) {
  return c_boundary("aoti_torch_cpu_scatter_src_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(src, "src"));
    return scatter(out, self, dim, index, *src, Reduction::kReplace, true);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_scatter_value_out)
(AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index, double value) {
  return c_boundary("aoti_torch_cpu_scatter_value_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(index, "index"));
    // One element, seen at every index.
    PTERON_ASSIGN_OR_RETURN(TensorPtr element,
                            slim::make_tensor(Span<const int64_t>(), self->dtype()));
    slim::store_scalar(self->dtype(), element->data(), slim::Scalar::of(value));
    const int64_t strides[slim::kMaxDims] = {0};
    SlimTensor everywhere;
    PTERON_RETURN_IF_ERROR(everywhere.set(element->storage(), index->sizes(),
                                          Span<const int64_t>(strides, index->dim()), 0,
                                          self->dtype()));
    return scatter(out, self, dim, index, everywhere, Reduction::kReplace, true);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_scatter_reduce_two_out)
(AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle index,
 AtenTensorHandle src, const char* reduce, int32_t include_self) {
  return c_boundary("aoti_torch_cpu_scatter_reduce_two_out", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(src, "src"));
    PTERON_ASSIGN_OR_RETURN(const Reduction reduction, reduction_named(reduce));
    return scatter(out, self, dim, index, *src, reduction, include_self != 0);
  });
}

}  // namespace pteron::cpu
