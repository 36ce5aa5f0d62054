// Positions of numbers in sorted sequences, and counts by range.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/cpu/runtime/kernels/parallel.h"
#include "pteron/backends/cpu/runtime/kernels/sort.h"
#include "pteron/backends/cpu/runtime/shims/arguments.h"

namespace pteron::cpu {
namespace {

// How many of `sorted` (read through `order` if there is one) come before `value`: with `right`
// those that are not greater, else those that are less. NaN comes after everything.
template <typename T>
int64_t lower_or_upper_bound(const T* sorted, const int64_t* order, int64_t count, T value,
                             bool right) {
  using Wide = slim::accumulate_t<T>;
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const Wide at = sorted[order ? order[middle] : middle];
    const bool before =
        right ? !(at > static_cast<Wide>(value)) : !(at >= static_cast<Wide>(value));
    if (before) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

struct Sorted {
  TensorPtr values;
  TensorPtr order;  // or null
};

// `values` are looked up one by one among the rows of `sorted`: the only row, or that of their own.
Error search(const SlimTensor& values, const Sorted& sorted, bool out_int32, bool right,
             AtenTensorHandle* ret) {
  const SlimTensor& rows = *sorted.values;
  PTERON_CHECK_OR_RETURN(values.dtype() == rows.dtype(), Error::InvalidType,
                         "found self %s, sorted sequence %s, expected one dtype",
                         values.describe().c_str(), rows.describe().c_str());
  const int64_t length = rows.size(rows.dim() - 1);
  const int64_t per_row = rows.dim() == 1 ? values.numel() : values.size(values.dim() - 1);
  PTERON_ASSIGN_OR_RETURN(TensorPtr in, slim::contiguous_tensor(values));
  PTERON_ASSIGN_OR_RETURN(TensorPtr out,
                          slim::make_tensor(values.sizes(), out_int32 ? DType::Int : DType::Long));
  bool done = false;
  PTERON_DISPATCH_REAL(values.dtype(), T, {
    parallel_for(in->numel(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / per_row * length;
        const int64_t found =
            lower_or_upper_bound<T>(rows.data_as<const T>() + row,
                                    sorted.order ? sorted.order->data_as<int64_t>() + row : nullptr,
                                    length, in->data_as<const T>()[i], right);
        if (out_int32) {
          out->data_as<int32_t>()[i] = static_cast<int32_t>(found);
        } else {
          out->data_as<int64_t>()[i] = found;
        }
      }
    });
    done = true;
  });
  if (!done) return PTERON_CPU_NO_DTYPE(&values);
  *ret = out.release();
  return Error::Ok;
}

Error searchsorted(AtenTensorHandle sequence, AtenTensorHandle self, bool out_int32, bool right,
                   const char** side, AtenTensorHandle sorter, AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(sequence, "the sorted sequence"));
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  if (side && *side) {
    const bool is_right = std::strcmp(*side, "right") == 0;
    PTERON_CHECK_OR_RETURN(
        is_right || (std::strcmp(*side, "left") == 0 && !right), Error::InvalidArgument,
        "found side %s and right %d, expected left or right, and not left with right", *side,
        right);
    right = is_right;
  }
  bool fits = sequence->dim() == 1;
  if (!fits && sequence->dim() == self->dim() && self->dim() > 1) {
    fits = std::equal(self->sizes().begin(), self->sizes().end() - 1, sequence->sizes().begin());
  }
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument,
                         "found self %s, sorted sequence %s, expected a sequence of one dimension, "
                         "or of the sizes of self but the last",
                         self->describe().c_str(), sequence->describe().c_str());
  Sorted sorted;
  PTERON_ASSIGN_OR_RETURN(sorted.values, slim::contiguous_tensor(*sequence));
  if (sorter) {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(sorter, "the sorter"));
    const bool same =
        sorter->dtype() == DType::Long && sorter->dim() == sequence->dim() &&
        std::equal(sorter->sizes().begin(), sorter->sizes().end(), sequence->sizes().begin());
    PTERON_CHECK_OR_RETURN(
        same, Error::InvalidArgument,
        "found sorter %s, sorted sequence %s, expected int64 numbers and equal sizes",
        sorter->describe().c_str(), sequence->describe().c_str());
    PTERON_ASSIGN_OR_RETURN(sorted.order, slim::contiguous_tensor(*sorter));
    const int64_t length = sequence->size(sequence->dim() - 1);
    for (int64_t i = 0; i < sorter->numel(); ++i) {
      const int64_t at = sorted.order->data_as<int64_t>()[i];
      PTERON_CHECK_OR_RETURN(at >= 0 && at < length, Error::InvalidArgument,
                             "found index %lld in the sorter, expected less than %lld",
                             static_cast<long long>(at), static_cast<long long>(length));
    }
  }
  return search(*self, sorted, out_int32, right, ret);
}

template <typename T>
void count_by_range(const SlimTensor& in, int64_t bins, double low, double high, T* counts) {
  std::fill(counts, counts + bins, T(0));
  const T* data = in.data_as<const T>();
  using Wide = slim::accumulate_t<T>;
  const Wide first = static_cast<Wide>(low), last = static_cast<Wide>(high);
  for (int64_t i = 0; i < in.numel(); ++i) {
    const Wide value = data[i];
    if (!(value >= first && value <= last)) continue;
    const auto bin =
        static_cast<int64_t>((value - first) * static_cast<Wide>(bins) / (last - first));
    T& count = counts[std::min(bin, bins - 1)];
    count = T(static_cast<Wide>(count) + Wide(1));
  }
}

Error histc(AtenTensorHandle self, int64_t bins, double low, double high, AtenTensorHandle* ret) {
  PTERON_RETURN_IF_ERROR(check_cpu_tensor(self, "self"));
  PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
  PTERON_CHECK_OR_RETURN(bins > 0 && low <= high, Error::InvalidArgument,
                         "found %lld bins from %g to %g, expected at least one and a rising range",
                         static_cast<long long>(bins), low, high);
  PTERON_ASSIGN_OR_RETURN(TensorPtr in, slim::contiguous_tensor(*self));
  PTERON_ASSIGN_OR_RETURN(TensorPtr out,
                          slim::make_tensor(Span<const int64_t>(&bins, 1), self->dtype()));
  bool done = false;
  Error error;
  PTERON_DISPATCH_FLOATING(self->dtype(), T, {
    if (low == high && in->numel() > 0) {
      const T* data = in->data_as<const T>();
      low = high = static_cast<double>(data[0]);
      for (int64_t i = 0; i < in->numel(); ++i) {
        low = std::min(low, static_cast<double>(data[i]));
        high = std::max(high, static_cast<double>(data[i]));
      }
    }
    if (low == high) {
      low -= 1;
      high += 1;
    }
    if (!std::isfinite(low) || !std::isfinite(high)) {
      error = make_error(Error::InvalidArgument,
                         "found a range from %g to %g, expected finite numbers", low, high);
    } else {
      count_by_range<T>(*in, bins, low, high, out->data_as<T>());
    }
    done = true;
  });
  if (!done) return PTERON_CPU_NO_DTYPE(self);
  PTERON_RETURN_IF_ERROR(std::move(error));
  *ret = out.release();
  return Error::Ok;
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, cpu_bucketize_Tensor)
(AtenTensorHandle self, AtenTensorHandle boundaries, int32_t out_int32, int32_t right,
 AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_bucketize_Tensor", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_cpu_tensor(boundaries, "boundaries"));
    PTERON_CHECK_OR_RETURN(boundaries->dim() == 1, Error::InvalidArgument,
                           "found boundaries %s, expected one dimension",
                           boundaries->describe().c_str());
    return searchsorted(boundaries, self, out_int32 != 0, right != 0, nullptr, nullptr, ret);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, cpu_searchsorted_Tensor)
(AtenTensorHandle sequence, AtenTensorHandle self, int32_t out_int32, int32_t right,
 const char** side, AtenTensorHandle* sorter, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_searchsorted_Tensor", [&] {
    return searchsorted(sequence, self, out_int32 != 0, right != 0, side, optional(sorter), ret);
  });
}

// Numbers outside the range count nowhere; equal limits mean those of the numbers themselves.
PTERON_AOTI_SHIM(AOTITorchError, cpu_histc)
(AtenTensorHandle self, int64_t bins, double min, double max, AtenTensorHandle* ret) {
  return c_boundary("aoti_torch_cpu_histc", [&] { return histc(self, bins, min, max, ret); });
}

}  // namespace pteron::cpu
