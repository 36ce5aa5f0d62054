#include "pteron/backends/aoti/ops/fft/fft.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

using List = Span<const int64_t>;
using Dims = std::vector<size_t>;

namespace {

Result<Dims> read_dims(const SlimTensor& self, List list, int64_t normalization) {
  PTERON_CHECK_OR_RETURN(normalization >= 0 && normalization <= 2, Error::InvalidArgument,
                         "found normalization %lld, expected 0, 1 or 2",
                         static_cast<long long>(normalization));
  Dims dims;
  for (const int64_t d : list) {
    PTERON_ASSIGN_OR_RETURN(const size_t checked, dim_argument(d, self.dim()));
    PTERON_CHECK_OR_RETURN(self.dim() > 0 && self.size(checked) > 0 &&
                               std::find(dims.begin(), dims.end(), checked) == dims.end(),
                           Error::InvalidArgument,
                           "found dimension %lld of %s, expected each once and none of size 0",
                           static_cast<long long>(d), self.describe().c_str());
    dims.push_back(checked);
  }
  return dims;
}

Error check_complex(const SlimTensor& self) {
  const DType dtype = self.dtype();
  PTERON_CHECK_OR_RETURN(dtype == DType::ComplexFloat || dtype == DType::ComplexDouble,
                         Error::InvalidType, "found self %s, expected complex64 or complex128",
                         self.describe().c_str());
  return Error::Ok;
}

// Normalization 0: none; 1: divide by sqrt(n); 2: divide by n.
double scale_of(int64_t normalization, List sizes, const Dims& dims) {
  double count = 1;
  for (const size_t dim : dims) count *= static_cast<double>(sizes[dim]);
  return normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(count) : 1 / count;
}

// Uninitialized. Dimensions that are not transformed are outermost, then those that are, each group
// ordered by its strides in `self`; with `keep_last` the last given dimension stays innermost.
// These are torch's strides on a CPU; the lowering makes code for other devices expect them too.
Result<TensorPtr> make(const SlimTensor& self, List sizes, const Dims& dims, bool keep_last,
                       DType dtype) {
  Dims order(self.dim());  // outermost first
  std::iota(order.begin(), order.end(), size_t{0});
  const auto rank_of = [&](size_t d) {
    if (keep_last && d == dims.back()) return 2;
    return std::find(dims.begin(), dims.end(), d) == dims.end() ? 0 : 1;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int x = rank_of(a), y = rank_of(b);
    return x != y ? x < y : self.stride(a) > self.stride(b);
  });
  int64_t strides[slim::kMaxDims], stride = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[*d] = stride;
    stride *= std::max<int64_t>(sizes[*d], 1);
  }
  return slim::make_tensor(sizes, List(strides, sizes.size()), dtype, self.device());
}

// Transforms `in` along all of `dims`, then `out` in place.
Error transform(const Kernels& kernels, const SlimTensor* in, const SlimTensor& out,
                const Dims& dims, bool forward, double scale) {
  for (size_t i = 0; i < dims.size(); ++i) {
    PTERON_RETURN_IF_ERROR(kernels.fft(
        {*in, out, dims[i], out.size(dims[i]), forward, i + 1 == dims.size() ? scale : 1}));
    in = &out;
  }
  return Error::Ok;
}

}  // namespace

Error _fft_c2c(const Kernels& kernels, const SlimTensor& self, List dim, int64_t normalization,
               bool forward, TensorPtr& out) {
  PTERON_RETURN_IF_ERROR(check_complex(self));
  PTERON_ASSIGN_OR_RETURN(const Dims dims, read_dims(self, dim, normalization));
  if (dims.empty()) {
    PTERON_ASSIGN_OR_RETURN(out, slim::clone_tensor(self));
    return Error::Ok;
  }
  PTERON_ASSIGN_OR_RETURN(out, make(self, self.sizes(), dims, false, self.dtype()));
  return transform(kernels, &self, *out, dims, forward,
                   scale_of(normalization, self.sizes(), dims));
}

// Forward, real to complex; `onesided` keeps the non-redundant half of the last dimension.
Error _fft_r2c(const Kernels& kernels, const SlimTensor& self, List dim, int64_t normalization,
               bool onesided, TensorPtr& out) {
  const bool is_float = self.dtype() == DType::Float;
  PTERON_CHECK_OR_RETURN(is_float || self.dtype() == DType::Double, Error::InvalidType,
                         "found self %s, expected float32 or float64", self.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(Dims dims, read_dims(self, dim, normalization));
  PTERON_CHECK_OR_RETURN(!dims.empty(), Error::InvalidArgument,
                         "found no dimensions, expected at least one");
  Sizes half(self);
  const size_t last = dims.back();
  const int64_t length = self.size(last);
  half.values[last] = length / 2 + 1;
  const List sizes = onesided ? List(half) : self.sizes();
  PTERON_ASSIGN_OR_RETURN(
      out, make(self, sizes, dims, true, is_float ? DType::ComplexFloat : DType::ComplexDouble));
  const double scale = scale_of(normalization, self.sizes(), dims);
  dims.pop_back();
  PTERON_RETURN_IF_ERROR(kernels.fft({self, *out, last, length, true, dims.empty() ? scale : 1}));
  return transform(kernels, out.get(), *out, dims, true, scale);
}

// Inverse, complex to real, from the non-redundant half of the last dimension.
Error _fft_c2r(const Kernels& kernels, const SlimTensor& self, List dim, int64_t normalization,
               int64_t last_dim_size, TensorPtr& out) {
  PTERON_RETURN_IF_ERROR(check_complex(self));
  PTERON_ASSIGN_OR_RETURN(Dims dims, read_dims(self, dim, normalization));
  PTERON_CHECK_OR_RETURN(
      !dims.empty() && last_dim_size > 0 && self.size(dims.back()) == last_dim_size / 2 + 1,
      Error::InvalidArgument,
      "found self %s, %zu dimensions and last_dim_size %lld, expected at least one dimension, in "
      "the last of which self has last_dim_size / 2 + 1 elements",
      self.describe().c_str(), dims.size(), static_cast<long long>(last_dim_size));
  const size_t last = dims.back();
  Sizes sizes(self);
  sizes.values[last] = last_dim_size;
  PTERON_ASSIGN_OR_RETURN(out,
                          make(self, sizes, dims, true,
                               self.dtype() == DType::ComplexFloat ? DType::Float : DType::Double));
  const double scale = scale_of(normalization, sizes, dims);
  dims.pop_back();
  TensorPtr half;
  if (!dims.empty()) {
    PTERON_ASSIGN_OR_RETURN(half, make_row_major(self.sizes(), self.dtype(), self.device()));
    PTERON_RETURN_IF_ERROR(transform(kernels, &self, *half, dims, false, 1));
  }
  return kernels.fft({half ? *half : self, *out, last, last_dim_size, false, scale});
}

}  // namespace pteron::aoti::ops
