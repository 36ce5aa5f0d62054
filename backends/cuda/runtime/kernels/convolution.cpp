#include "pteron/backends/cuda/runtime/kernels/convolution.h"

#include <limits>
#include <string>

#include "pteron/backends/cuda/runtime/kernels/gemm.h"

namespace pteron::cuda {
namespace {

std::string describe(const Convolution& c) {
  const auto list = [&](const int64_t* values) {
    std::string text = "[";
    for (int i = 0; i < c.dims; ++i) text += (i ? ", " : "") + std::to_string(values[i]);
    return text + "]";
  };
  return std::string(c.transposed ? "transposed convolution" : "convolution") + " of " +
         std::to_string(c.batch) + " x " + std::to_string(c.in_channels) + " x " +
         list(c.in_sizes) + " to " + std::to_string(c.out_channels) + " channels, kernel " +
         list(c.kernel) + ", stride " + list(c.stride) + ", padding " + list(c.padding) +
         ", dilation " + list(c.dilation) + ", groups " + std::to_string(c.groups);
}

}  // namespace

Error check_and_size(Convolution* conv) {
  Convolution& c = *conv;
  PTERON_CHECK_OR_RETURN(is_gemm_type(c.dtype), Error::InvalidType,
                         "%s: found %s, expected float16, bfloat16, float32 or float64",
                         describe(c).c_str(), name_of(c.dtype));
  bool good = c.dims >= 1 && c.dims <= kMaxSpatialDims && c.groups >= 1 && c.batch >= 0 &&
              c.in_channels >= 0 && c.out_channels >= 0 && c.in_channels % c.groups == 0 &&
              c.out_channels % c.groups == 0;
  for (int i = 0; i < c.dims && good; ++i) {
    good = c.kernel[i] >= 1 && c.stride[i] >= 1 && c.padding[i] >= 0 && c.dilation[i] >= 1 &&
           c.output_padding[i] >= 0 && c.in_sizes[i] >= 0;
    const int64_t reach = c.dilation[i] * (c.kernel[i] - 1) + 1;
    c.out_sizes[i] = c.transposed ? (c.in_sizes[i] - 1) * c.stride[i] - 2 * c.padding[i] + reach +
                                        c.output_padding[i]
                                  : (c.in_sizes[i] + 2 * c.padding[i] - reach) / c.stride[i] + 1;
    if (!c.transposed && c.in_sizes[i] + 2 * c.padding[i] < reach) good = false;
    good = good && c.out_sizes[i] >= 1 && c.out_sizes[i] <= std::numeric_limits<int>::max();
  }
  PTERON_CHECK_OR_RETURN(good, Error::InvalidArgument, "%s gives no output", describe(c).c_str());
  return Error::Ok;
}

Error convolve(const Convolution& conv, const void* input, const void* weight, void* out,
               int device, cudaStream_t stream, ConvolutionLibrary library) {
  if (conv.batch == 0 || conv.out_channels == 0) return Error::Ok;
  if (library != ConvolutionLibrary::kUnfold) {
    Error error = convolve_with_cudnn(conv, input, weight, out, device, stream);
    const bool can_do_without = error == Error::NotFound || error == Error::NotSupported;
    if (!can_do_without || library == ConvolutionLibrary::kCudnn) return error;
  }
  return convolve_unfolded(conv, input, weight, out, device, stream);
}

}  // namespace pteron::cuda
