#include "pteron/backends/aoti/ops/packed_convolution/packed_convolution.h"

#include <limits>
#include <string>

#include "pteron/backends/aoti/ops/ops.h"

namespace pteron::aoti::ops {
namespace {

using List = Span<const int64_t>;

// Output channels per panel.
constexpr int64_t kPanel = 16;

// Of the packed weights.
Sizes packed_sizes(const SlimTensor& input, int64_t out_channels, int64_t groups, int64_t area) {
  const int64_t channels = input.size(1);
  const auto panels = [](int64_t numbers) { return (numbers + kPanel - 1) / kPanel; };
  Sizes sizes(input);
  const int64_t of_channel = out_channels / groups;
  const bool are_few = groups > 1 && 2 * of_channel < kPanel;  // for each channel, convolved alone
  if (groups == channels && (of_channel == 1 || are_few)) {
    sizes.dim = 2;
    sizes.values[0] = 1 + area;
    sizes.values[1] = panels(out_channels) * kPanel;
  } else {
    sizes.dim = 4;
    sizes.values[0] = groups;
    sizes.values[1] = panels(out_channels / groups);
    sizes.values[2] = 1 + channels / groups * area;
    sizes.values[3] = kPanel;
  }
  return sizes;
}

Error convolve(const Kernels& kernels, const SlimTensor& input, const SlimTensor& weight,
               const SlimTensor* residual, int64_t out_channels, List kernel, List stride,
               List padding, List dilation, int64_t groups, std::optional<double> least,
               std::optional<double> most, bool is_winograd, TensorPtr& out) {
  const auto all = [&] {
    return "found input " + input.describe() + ", weight " + weight.describe() + ", residual " +
           (residual ? residual->describe() : "none") + ", " + std::to_string(out_channels) +
           " output channels, " + std::to_string(groups) + " groups";
  };
  PTERON_CHECK_OR_RETURN(
      input.dtype() == weight.dtype() && (!residual || residual->dtype() == input.dtype()),
      Error::InvalidType, "%s; expected one dtype", all().c_str());
  PTERON_CHECK_OR_RETURN(input.dim() == 4, Error::InvalidArgument,
                         "%s; expected an input of 4 dimensions", all().c_str());
  PTERON_CHECK_OR_RETURN(groups >= 1 && out_channels >= 1 && out_channels <= weight.numel() &&
                             input.size(1) % groups == 0 && out_channels % groups == 0,
                         Error::InvalidArgument,
                         "%s; expected channels that fit the groups and the weight", all().c_str());
  PTERON_CHECK_OR_RETURN(padding.size() == 4, Error::InvalidArgument,
                         "found padding of %zu numbers, expected 4: above, below, left, right",
                         padding.size());
  std::array<int64_t, 3> taps{1, 1, 1}, strides{1, 1, 1}, before{}, behind{}, dilations{1, 1, 1};
  const int64_t above_left[] = {padding[0], padding[2]}, below_right[] = {padding[1], padding[3]};
  PTERON_RETURN_IF_ERROR(spread(kernel, 2, "kernel", 1, taps.data()));
  PTERON_RETURN_IF_ERROR(spread(stride, 2, "stride", 1, strides.data()));
  PTERON_RETURN_IF_ERROR(spread({above_left, 2}, 2, "padding", 0, before.data()));
  PTERON_RETURN_IF_ERROR(spread({below_right, 2}, 2, "padding", 0, behind.data()));
  PTERON_RETURN_IF_ERROR(spread(dilation, 2, "dilation", 1, dilations.data()));

  PTERON_CHECK_OR_RETURN(taps[1] * taps[2] <= weight.numel(), Error::InvalidArgument,
                         "%s and a kernel of %lld x %lld; expected as many weights", all().c_str(),
                         static_cast<long long>(taps[1]), static_cast<long long>(taps[2]));
  const Sizes wanted =
      packed_sizes(input, out_channels, groups, is_winograd ? 4 * 4 : taps[1] * taps[2]);
  PTERON_CHECK_OR_RETURN(
      has_sizes(weight, wanted) && weight.is_contiguous(), Error::InvalidArgument,
      "%s; expected weights arranged for these channels and a kernel of %lld x "
      "%lld",
      all().c_str(), static_cast<long long>(taps[1]), static_cast<long long>(taps[2]));
  Sizes sizes(input);
  sizes.values[1] = out_channels;
  for (size_t k = 1; k < 3; ++k) {
    const int64_t room =
        input.size(k + 1) + before[k] + behind[k] - dilations[k] * (taps[k] - 1) - 1;
    sizes.values[k + 1] = room < 0 ? 0 : room / strides[k] + 1;
    PTERON_CHECK_OR_RETURN(
        input.size(k + 1) >= 1 && sizes.values[k + 1] >= 1 && sizes.values[k + 1] <= INT32_MAX,
        Error::InvalidArgument, "%s, a kernel of %lld x %lld, which give no output", all().c_str(),
        static_cast<long long>(taps[1]), static_cast<long long>(taps[2]));
  }
  PTERON_CHECK_OR_RETURN(!residual || has_sizes(*residual, sizes), Error::InvalidArgument,
                         "%s; expected a residual like the result", all().c_str());
  PTERON_ASSIGN_OR_RETURN(out, make_channels_last(sizes, input.dtype(), input.device()));
  if (out->numel() == 0) return Error::Ok;
  constexpr double kMost = std::numeric_limits<double>::infinity();
  return kernels.packed_convolution({*out, input, weight, residual, taps, strides, before,
                                     dilations, groups, static_cast<float>(least.value_or(-kMost)),
                                     static_cast<float>(most.value_or(kMost)), is_winograd});
}

}  // namespace

Error packed_convolution(const Kernels& kernels, const SlimTensor& input, const SlimTensor& weight,
                         const SlimTensor* residual, int64_t out_channels, List kernel, List stride,
                         List padding, List dilation, int64_t groups, std::optional<double> least,
                         std::optional<double> most, TensorPtr& out) {
  return convolve(kernels, input, weight, residual, out_channels, kernel, stride, padding, dilation,
                  groups, least, most, false, out);
}

Error winograd_convolution(const Kernels& kernels, const SlimTensor& input,
                           const SlimTensor& weight, const SlimTensor* residual,
                           int64_t out_channels, List padding, std::optional<double> least,
                           std::optional<double> most, TensorPtr& out) {
  constexpr int64_t kKernel[] = {3, 3}, kOne[] = {1, 1};
  return convolve(kernels, input, weight, residual, out_channels, {kKernel, 2}, {kOne, 2}, padding,
                  {kOne, 2}, 1, least, most, true, out);
}

}  // namespace pteron::aoti::ops
