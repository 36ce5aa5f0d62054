// Convolutions of one to three spatial dimensions, and their transposes.
//
//   Convolution conv;
//   conv.dtype = ScalarType::Half;
//   conv.dims = 2;
//   conv.batch = 8; conv.in_channels = 64; conv.out_channels = 128;
//   conv.in_sizes[0] = conv.out_sizes[0] = 56; ...
//   PTERON_RETURN_IF_ERROR(convolve(conv, input, weight, out, device, stream));
//
// The library (cuDNN) runs it where this machine has it; without it, the input is unfolded and
// multiplied by the weight, in slices of bounded memory. Products are summed in float32 for 16-bit
// types and in the operands' type otherwise; TF32 only if asked for.
//
// Sizes and strides in elements. Asynchronous on `stream`. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/scalar_type.h"

namespace pteron::cuda {

inline constexpr int kMaxSpatialDims = 3;

struct Convolution {
  ScalarType dtype = ScalarType::Float;  // of all operands
  int dims = 2;                          // spatial ones
  bool transposed = false;
  bool channels_last = false;  // of input, weight and out; else channels come before space
  bool allow_tf32 = false;
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  int64_t in_sizes[kMaxSpatialDims] = {1, 1, 1};
  int64_t out_sizes[kMaxSpatialDims] = {1, 1, 1};
  int64_t kernel[kMaxSpatialDims] = {1, 1, 1};
  int64_t stride[kMaxSpatialDims] = {1, 1, 1};
  int64_t padding[kMaxSpatialDims] = {0, 0, 0};
  int64_t dilation[kMaxSpatialDims] = {1, 1, 1};
};

// Who computes.
enum class ConvolutionLibrary { kAuto, kCudnn, kUnfold };

// `input` [batch, in_channels, ...], `weight` [out_channels, in_channels / groups, ...]
// (transposed: [in_channels, out_channels / groups, ...]) and `out` [batch, out_channels, ...] are
// packed, in the order that `channels_last` says. `device` must be current.
Error convolve(const Convolution& conv, const void* input, const void* weight, void* out,
               int device, cudaStream_t stream,
               ConvolutionLibrary library = ConvolutionLibrary::kAuto);

// out[n, c, ...] += bias[c], over `out` packed as above.
Error add_bias(const Convolution& conv, const void* bias, void* out, cudaStream_t stream);

// The two ways. NotSupported where the library has no algorithm, NotFound without it.
Error convolve_with_cudnn(const Convolution& conv, const void* input, const void* weight, void* out,
                          int device, cudaStream_t stream);
Error convolve_unfolded(const Convolution& conv, const void* input, const void* weight, void* out,
                        int device, cudaStream_t stream);

}  // namespace pteron::cuda
