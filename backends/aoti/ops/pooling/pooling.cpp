#include "pteron/backends/aoti/ops/pooling/pooling.h"

#include <algorithm>

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

using List = Span<const int64_t>;

namespace {

constexpr PoolingWindows kOnePosition = {
    /*adaptive=*/false,     /*batch=*/1,
    /*channels=*/1,
    /*in=*/{1, 1, 1},       /*out=*/{1, 1, 1},
    /*window=*/{1, 1, 1},   /*stride=*/{1, 1, 1},
    /*padding=*/{0, 0, 0},  /*dilation=*/{1, 1, 1},
    /*in_strides=*/{},      /*out_strides=*/{},
    /*count_padding=*/true, /*divisor=*/0};

struct Sliding {
  List kernel, stride, padding, dilation;
  bool ceil_mode;
};

void spread_strides(const SlimTensor& tensor, size_t dims, int64_t* strides) {
  const size_t leading = tensor.dim() - dims;
  if (leading == 2) strides[0] = tensor.stride(0);
  strides[1] = tensor.stride(leading - 1);
  for (size_t d = 0; d < dims; ++d) strides[5 - dims + d] = tensor.stride(leading + d);
}

Result<PoolingWindows> read(const SlimTensor& self, size_t dims) {
  const size_t leading = self.dim() - dims;
  PTERON_CHECK_OR_RETURN(self.dim() == dims + 1 || self.dim() == dims + 2, Error::InvalidArgument,
                         "found self %s, expected %zu or %zu dimensions", self.describe().c_str(),
                         dims + 1, dims + 2);
  PoolingWindows pooling = kOnePosition;
  if (leading == 2) pooling.batch = self.size(0);
  pooling.channels = self.size(leading - 1);
  for (size_t d = 0; d < dims; ++d) {
    pooling.in[3 - dims + d] = self.size(leading + d);
    PTERON_CHECK_OR_RETURN(self.size(leading + d) > 0, Error::InvalidArgument,
                           "found self %s without elements in dimension %zu",
                           self.describe().c_str(), leading + d);
  }
  spread_strides(self, dims, pooling.in_strides);
  return pooling;
}

Error read_windows(const SlimTensor& self, size_t dims, const Sliding& sliding,
                   PoolingWindows* pooling) {
  PoolingWindows& p = *pooling;
  PTERON_CHECK_OR_RETURN(!sliding.kernel.empty(), Error::InvalidArgument,
                         "found kernel_size of 0 numbers, expected %zu", dims);
  PTERON_RETURN_IF_ERROR(spread(sliding.kernel, dims, "kernel_size", 1, p.window));
  std::copy(p.window, p.window + 3, p.stride);
  PTERON_RETURN_IF_ERROR(spread(sliding.stride, dims, "stride", 1, p.stride));
  PTERON_RETURN_IF_ERROR(spread(sliding.padding, dims, "padding", 0, p.padding));
  PTERON_RETURN_IF_ERROR(spread(sliding.dilation, dims, "dilation", 1, p.dilation));
  int64_t padded = 1;
  for (size_t d = 0; d < 3; ++d) {
    const int64_t reach = (p.window[d] - 1) * p.dilation[d] + 1;
    PTERON_CHECK_OR_RETURN(2 * p.padding[d] <= reach, Error::InvalidArgument,
                           "found padding %lld, expected at most half of a window of %lld",
                           static_cast<long long>(p.padding[d]), static_cast<long long>(reach));
    PTERON_CHECK_OR_RETURN(
        !__builtin_mul_overflow(padded, p.in[d] + 2 * p.padding[d], &padded),
        Error::InvalidArgument,
        "found self %s and padding of up to %lld, more positions than 64 bits count",
        self.describe().c_str(), static_cast<long long>(p.padding[d]));
    const int64_t room = p.in[d] + 2 * p.padding[d] - reach;
    PTERON_CHECK_OR_RETURN(room >= 0 || (sliding.ceil_mode && room + p.stride[d] > 0),
                           Error::InvalidArgument,
                           "found self %s, into which a window of %lld does not fit",
                           self.describe().c_str(), static_cast<long long>(reach));
    p.out[d] = (room + (sliding.ceil_mode ? p.stride[d] - 1 : 0)) / p.stride[d] + 1;
    // The last window must start inside the input or its left padding.
    if (sliding.ceil_mode && (p.out[d] - 1) * p.stride[d] >= p.in[d] + p.padding[d]) --p.out[d];
  }
  return Error::Ok;
}

// Averages without `indices`.
Error run(const Kernels& kernels, const SlimTensor& self, size_t dims, PoolingWindows* pooling,
          TensorPtr& out, TensorPtr* indices) {
  PTERON_CHECK_OR_RETURN(
      indices ? !slim::is_complex(self.dtype()) : slim::is_floating_point(self.dtype()),
      Error::InvalidType, "found self %s, expected %s numbers", self.describe().c_str(),
      indices ? "real" : "floating-point");
  Sizes sizes(self);
  std::copy(pooling->out + 3 - dims, pooling->out + 3, sizes.values + sizes.dim - dims);
  // Of volumes, sliding maxima alone are not row-major.
  const bool keeps_layout = dims == 2 || (indices && !pooling->adaptive);
  const bool channels_last = keeps_layout && self.dim() == dims + 2 && slim::is_channels_last(self);
  const auto make = channels_last ? make_channels_last : make_row_major;
  PTERON_ASSIGN_OR_RETURN(out, make(sizes, self.dtype(), self.device()));
  if (indices) {
    PTERON_ASSIGN_OR_RETURN(*indices, make(sizes, DType::Long, self.device()));
  }
  if (out->numel() == 0) return Error::Ok;  // then planes may have more positions than int64 counts
  spread_strides(*out, dims, pooling->out_strides);
  return kernels.pool({*pooling, self, *out, indices ? indices->get() : nullptr});
}

Error adaptive(const Kernels& kernels, const SlimTensor& self, List output_size, size_t dims,
               TensorPtr& out, TensorPtr* indices) {
  PTERON_ASSIGN_OR_RETURN(PoolingWindows pooling, read(self, dims));
  pooling.adaptive = true;
  PTERON_RETURN_IF_ERROR(spread(output_size, dims, "output_size", 0, pooling.out));
  return run(kernels, self, dims, &pooling, out, indices);
}

Error average(const Kernels& kernels, const SlimTensor& self, const Sliding& sliding,
              bool count_padding, std::optional<int64_t> divisor, size_t dims, TensorPtr& out) {
  PTERON_CHECK_OR_RETURN(divisor != 0, Error::InvalidArgument,
                         "found divisor_override 0, expected another number");
  PTERON_ASSIGN_OR_RETURN(PoolingWindows pooling, read(self, dims));
  PTERON_RETURN_IF_ERROR(read_windows(self, dims, sliding, &pooling));
  pooling.count_padding = count_padding;
  pooling.divisor = divisor.value_or(0);
  return run(kernels, self, dims, &pooling, out, nullptr);
}

Error maximum(const Kernels& kernels, const SlimTensor& self, const Sliding& sliding, size_t dims,
              TensorPtr& out, TensorPtr& indices) {
  PTERON_ASSIGN_OR_RETURN(PoolingWindows pooling, read(self, dims));
  PTERON_RETURN_IF_ERROR(read_windows(self, dims, sliding, &pooling));
  return run(kernels, self, dims, &pooling, out, &indices);
}

}  // namespace

// 2-d and 3-d.
#define PTERON_POOLING(dims)                                                                       \
  Error _adaptive_avg_pool##dims##d(const Kernels& kernels, const SlimTensor& self,                \
                                    List output_size, TensorPtr& out) {                            \
    return adaptive(kernels, self, output_size, dims, out, nullptr);                               \
  }                                                                                                \
  Error adaptive_max_pool##dims##d(const Kernels& kernels, const SlimTensor& self,                 \
                                   List output_size, TensorPtr& out, TensorPtr& indices) {         \
    return adaptive(kernels, self, output_size, dims, out, &indices);                              \
  }                                                                                                \
  Error avg_pool##dims##d(const Kernels& kernels, const SlimTensor& self, List kernel_size,        \
                          List stride, List padding, bool ceil_mode, bool count_include_pad,       \
                          std::optional<int64_t> divisor_override, TensorPtr& out) {               \
    return average(kernels, self, {kernel_size, stride, padding, {}, ceil_mode},                   \
                   count_include_pad, divisor_override, dims, out);                                \
  }                                                                                                \
  Error max_pool##dims##d_with_indices(const Kernels& kernels, const SlimTensor& self,             \
                                       List kernel_size, List stride, List padding, List dilation, \
                                       bool ceil_mode, TensorPtr& out, TensorPtr& indices) {       \
    return maximum(kernels, self, {kernel_size, stride, padding, dilation, ceil_mode}, dims, out,  \
                   indices);                                                                       \
  }
PTERON_POOLING(2)
PTERON_POOLING(3)
#undef PTERON_POOLING

}  // namespace pteron::aoti::ops
