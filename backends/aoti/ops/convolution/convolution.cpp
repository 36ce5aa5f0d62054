#include "pteron/backends/aoti/ops/convolution/convolution.h"

#include <string>

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {

using List = Span<const int64_t>;

namespace {

Error check(const SlimTensor& input, const SlimTensor& weight, const SlimTensor* bias,
            bool transposed, int64_t groups) {
  const auto all = [&] {
    return "found input " + input.describe() + ", weight " + weight.describe() + ", bias " +
           (bias ? bias->describe() : "none") + (transposed ? ", transposed" : "") + ", " +
           std::to_string(groups) + " groups";
  };
  PTERON_CHECK_OR_RETURN(
      input.dtype() == weight.dtype() && (!bias || bias->dtype() == input.dtype()),
      Error::InvalidType, "%s; expected one dtype", all().c_str());
  PTERON_CHECK_OR_RETURN(input.dim() == weight.dim() && input.dim() >= 3 && input.dim() <= 5,
                         Error::InvalidArgument,
                         "%s; expected input and weight of 3 to 5 dimensions each", all().c_str());
  const int64_t channels = input.size(1), first = weight.size(0), second = weight.size(1);
  int64_t of_groups = 0;  // second dimensions of all groups
  const bool fits = groups >= 1 && !__builtin_mul_overflow(second, groups, &of_groups) &&
                    first % groups == 0 && (transposed ? first : of_groups) == channels;
  PTERON_CHECK_OR_RETURN(fits, Error::InvalidArgument, "%s; expected channels that fit the groups",
                         all().c_str());
  const int64_t numbers = transposed ? of_groups : first;
  PTERON_CHECK_OR_RETURN(!bias || (bias->dim() == 1 && bias->size(0) == numbers),
                         Error::InvalidArgument, "%s; expected a bias of %lld numbers",
                         all().c_str(), static_cast<long long>(numbers));
  return Error::Ok;
}

// Shared by both operators.
Error convolve(const Kernels& kernels, const SlimTensor& input, const SlimTensor& weight,
               const SlimTensor* bias, const SlimTensor* residual, List stride, List padding,
               List dilation, bool transposed, List output_padding, int64_t groups, bool relu,
               bool channels_last, TensorPtr& out) {
  PTERON_RETURN_IF_ERROR(check(input, weight, bias, transposed, groups));
  const size_t dims = input.dim() - 2;
  std::array<int64_t, 3> strides{1, 1, 1}, paddings{}, dilations{1, 1, 1}, more{};
  PTERON_RETURN_IF_ERROR(spread(stride, dims, "stride", 1, strides.data()));
  PTERON_RETURN_IF_ERROR(spread(padding, dims, "padding", 0, paddings.data()));
  PTERON_RETURN_IF_ERROR(spread(dilation, dims, "dilation", 1, dilations.data()));
  if (transposed) {
    PTERON_RETURN_IF_ERROR(spread(output_padding, dims, "output_padding", 0, more.data()));
  }

  Sizes sizes(input);
  sizes.values[1] = transposed ? weight.size(1) * groups : weight.size(0);
  for (size_t d = 2; d < input.dim(); ++d) {
    const size_t k = 3 + d - input.dim();
    const int64_t in = input.size(d), kernel = weight.size(d);
    PTERON_CHECK_OR_RETURN(in >= 1 && in <= INT32_MAX && kernel >= 1 && kernel <= INT32_MAX,
                           Error::InvalidArgument,
                           "found input %s, weight %s, expected 1 to %d elements in dimension %zu",
                           input.describe().c_str(), weight.describe().c_str(), INT32_MAX, d);
    const int64_t reach = dilations[k] * (kernel - 1) + 1, room = in + 2 * paddings[k] - reach;
    const int64_t size = transposed ? (in - 1) * strides[k] - 2 * paddings[k] + reach + more[k]
                         : room < 0 ? 0
                                    : room / strides[k] + 1;
    PTERON_CHECK_OR_RETURN(size >= 1 && size <= INT32_MAX, Error::InvalidArgument,
                           "found input %s, weight %s, which give no output in dimension %zu",
                           input.describe().c_str(), weight.describe().c_str(), d);
    sizes.values[d] = size;
  }
  PTERON_CHECK_OR_RETURN(
      !residual || (residual->dtype() == input.dtype() && has_sizes(*residual, sizes)),
      Error::InvalidArgument,
      "found residual %s, expected one like the result of input %s, weight %s",
      residual ? residual->describe().c_str() : "none", input.describe().c_str(),
      weight.describe().c_str());
  PTERON_ASSIGN_OR_RETURN(out, (channels_last ? make_channels_last : make_row_major)(
                                   sizes, input.dtype(), input.device()));
  TensorPtr dense;
  if (bias && !bias->is_contiguous()) {
    PTERON_ASSIGN_OR_RETURN(dense, slim::contiguous_tensor(*bias));
    bias = dense.get();
  }
  return kernels.convolution({*out, input, weight, bias, dims, strides, paddings, dilations,
                              transposed, groups, channels_last, residual, relu});
}

}  // namespace

Error convolution(const Kernels& kernels, const SlimTensor& input, const SlimTensor& weight,
                  const SlimTensor* bias, List stride, List padding, List dilation, bool transposed,
                  List output_padding, int64_t groups, TensorPtr& out) {
  return convolve(kernels, input, weight, bias, nullptr, stride, padding, dilation, transposed,
                  output_padding, groups, false, slim::is_convolution_channels_last(input, weight),
                  out);
}

Error fused_convolution(const Kernels& kernels, const SlimTensor& input, const SlimTensor& weight,
                        const SlimTensor* bias, const SlimTensor* residual, List stride,
                        List padding, List dilation, int64_t groups, bool relu, TensorPtr& out) {
  return convolve(kernels, input, weight, bias, residual, stride, padding, dilation, false, {},
                  groups, relu, true, out);
}

}  // namespace pteron::aoti::ops
