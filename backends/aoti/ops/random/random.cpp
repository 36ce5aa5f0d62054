#include "pteron/backends/aoti/ops/random/random.h"

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

Error randint_low_out(const Kernels& kernels, const SlimTensor& out, int64_t low, int64_t high,
                      Span<const int64_t> size) {
  PTERON_CHECK_OR_RETURN(low < high, Error::InvalidArgument,
                         "found low %lld and high %lld, expected low < high",
                         static_cast<long long>(low), static_cast<long long>(high));
  PTERON_CHECK_OR_RETURN(
      has_sizes(out, size) && !slim::is_complex(out.dtype()), Error::InvalidArgument,
      "found out %s, expected real numbers and the sizes in size", out.describe().c_str());
  if (out.is_contiguous()) return kernels.random_integers({out, low, high});
  PTERON_ASSIGN_OR_RETURN(TensorPtr drawn, make_row_major(size, out.dtype(), out.device()));
  PTERON_RETURN_IF_ERROR(kernels.random_integers({*drawn, low, high}));
  return slim::copy_tensor(out, *drawn);
}

Error randperm(const Kernels& kernels, int64_t n, std::optional<DType> dtype,
               std::optional<int32_t>, Device device, std::optional<bool>, TensorPtr& out) {
  const DType type = dtype.value_or(DType::Long);
  PTERON_CHECK_OR_RETURN(n >= 0 && n <= (int64_t{1} << 40) && !slim::is_complex(type),
                         Error::InvalidArgument, "found n %lld of %s, expected 0 to 2^40, real",
                         static_cast<long long>(n), slim::name_of(type));
  PTERON_ASSIGN_OR_RETURN(out, make_row_major({&n, 1}, type, device));
  return n == 0 ? Error(Error::Ok) : kernels.random_permutation({*out});
}

Error multinomial(const Kernels& kernels, const SlimTensor& self, int64_t num_samples,
                  bool replacement, void**, TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(slim::is_floating_point(self.dtype()) && self.dim() >= 1 &&
                             self.dim() <= 2 && self.size(self.dim() - 1) > 0,
                         Error::InvalidArgument,
                         "found self %s, expected floating-point numbers in one or two dimensions",
                         self.describe().c_str());
  Sizes sizes(self);
  int64_t& count = sizes.values[sizes.dim - 1];
  PTERON_CHECK_OR_RETURN(
      num_samples > 0 && (replacement || num_samples <= count), Error::InvalidArgument,
      "found %lld samples of %s, expected at least one and, without "
      "replacement, at most %lld",
      static_cast<long long>(num_samples), self.describe().c_str(), static_cast<long long>(count));
  count = num_samples;
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(sizes, DType::Long, self.device()));
  return out->numel() == 0 ? Error(Error::Ok) : kernels.multinomial({self, replacement, *out});
}

}  // namespace pteron::aoti::ops
