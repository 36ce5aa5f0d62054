#include "pteron/backends/aoti/ops/masked/masked.h"

#include <limits>

#include "pteron/backends/aoti/ops/ops.h"
#include "pteron/backends/aoti/ops/scan/scan.h"
#include "pteron/backends/aoti/ops/unique/runs.h"
#include "pteron/backends/aoti/ops/views.h"

namespace pteron::aoti::ops {

namespace {

// `tensor` at `sizes`, in one dimension.
Result<TensorPtr> flattened_at(const SlimTensor& tensor, const char* name,
                               Span<const int64_t> sizes) {
  PTERON_ASSIGN_OR_RETURN(const TensorPtr spread, broadcast_to(tensor, name, sizes));
  return flattened(*spread);
}

Result<CommonSizes> sizes_with(const SlimTensor& self, const SlimTensor& mask) {
  PTERON_CHECK_OR_RETURN(mask.dtype() == DType::Bool, Error::InvalidType,
                         "found mask %s, expected bool", mask.describe().c_str());
  CommonSizes sizes;
  PTERON_RETURN_IF_ERROR(sizes.add(self, "self"));
  PTERON_RETURN_IF_ERROR(sizes.add(mask, "mask"));
  return sizes;
}

}  // namespace

Error masked_select(const Kernels& kernels, const SlimTensor& self, const SlimTensor& mask,
                    TensorPtr& out) {
  PTERON_ASSIGN_OR_RETURN(const CommonSizes sizes, sizes_with(self, mask));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr values, flattened_at(self, "self", sizes));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr flags, flattened_at(mask, "mask", sizes));
  const SlimTensor* const indices[] = {flags.get()};
  return index_Tensor(kernels, *values, indices, out);
}

Error masked_scatter(const Kernels& kernels, const SlimTensor& self, const SlimTensor& mask,
                     const SlimTensor& source, TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(source.dtype() == self.dtype(), Error::InvalidType,
                         "found source %s, self %s, expected one dtype", source.describe().c_str(),
                         self.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(const CommonSizes sizes, sizes_with(self, mask));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr flags, flattened_at(mask, "mask", sizes));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr from, flattened(source));
  PTERON_ASSIGN_OR_RETURN(out, make_row_major(sizes, self.dtype(), self.device()));
  PTERON_RETURN_IF_ERROR(slim::copy_tensor(*out, self, true));
  PTERON_ASSIGN_OR_RETURN(const TensorPtr to, flattened(*out));
  return kernels.masked_scatter({*to, *flags, *from});
}

// Index i, repeats[i] times, for all i. Synchronizes the device unless `output_size` is given.
Error repeat_interleave_Tensor(const Kernels& kernels, const SlimTensor& repeats,
                               std::optional<int64_t> output_size, TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(
      repeats.dim() == 1 && (repeats.dtype() == DType::Long || repeats.dtype() == DType::Int),
      Error::InvalidArgument, "found repeats %s, expected int32 or int64 numbers in one dimension",
      repeats.describe().c_str());
  const int64_t count = repeats.numel();
  int64_t total = output_size.value_or(0);
  PTERON_ASSIGN_OR_RETURN(const TensorPtr ends,
                          make_row_major(repeats.sizes(), DType::Long, repeats.device()));
  if (count > 0) {
    if (kernels.find_outside) {
      const auto negative = kernels.find_outside(repeats, 0, std::numeric_limits<int64_t>::max());
      PTERON_CHECK_OR_RETURN(!negative, Error::InvalidArgument,
                             "found repeat %lld, expected 0 or more",
                             static_cast<long long>(*negative));
    }
    PTERON_RETURN_IF_ERROR(kernels.scan({ScanCall::Kind::kSum, repeats, 0, *ends, nullptr}));
    if (!output_size || kernels.find_outside) {
      PTERON_ASSIGN_OR_RETURN(const TensorPtr last, make_view(*ends, {}, {}, count - 1));
      PTERON_ASSIGN_OR_RETURN(const TensorPtr host, slim::make_tensor({}, DType::Long));
      PTERON_RETURN_IF_ERROR(slim::copy_tensor(*host, *last));
      total = *host->data_as<int64_t>();
    }
    // On int64 overflow a partial sum is negative.
    const bool wraps =
        kernels.find_outside && kernels.find_outside(*ends, 0, std::numeric_limits<int64_t>::max());
    PTERON_CHECK_OR_RETURN(!wraps, Error::InvalidArgument,
                           "found repeats whose sum has more than 64 bits, expected less");
  }
  PTERON_CHECK_OR_RETURN(
      total >= 0 && output_size.value_or(total) == total && (count > 0 || total == 0),
      Error::InvalidArgument, "found repeats that sum to %lld, expected the output size %lld",
      static_cast<long long>(count > 0 ? total : 0),
      static_cast<long long>(output_size.value_or(0)));
  PTERON_ASSIGN_OR_RETURN(out, make_row_major({&total, 1}, repeats.dtype(), repeats.device()));
  return kernels.number_runs({total, *ends, nullptr, out.get(), nullptr});
}

}  // namespace pteron::aoti::ops
