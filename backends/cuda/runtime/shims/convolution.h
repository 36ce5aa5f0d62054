// Convolution and transposed convolution with one to three spatial dimensions.
//
// Uses cuDNN if available; without it, and for float64, im2col and GEMM in slices of bounded
// memory. Accumulates in float32 for 16-bit types and in the operands' type otherwise; TF32 only if
// enabled.
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
  int dims = 2;                          // spatial dimensions
  bool transposed = false;
  bool channels_last = false;  // of input, weight and out; otherwise contiguous
  bool allow_tf32 = false;
  bool relu = false;  // of what is stored
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  int64_t in_sizes[kMaxSpatialDims] = {1, 1, 1};
  int64_t out_sizes[kMaxSpatialDims] = {1, 1, 1};
  int64_t kernel[kMaxSpatialDims] = {1, 1, 1};
  int64_t stride[kMaxSpatialDims] = {1, 1, 1};
  int64_t padding[kMaxSpatialDims] = {0, 0, 0};
  int64_t dilation[kMaxSpatialDims] = {1, 1, 1};
};

// Data on the device, aligned to 16 bytes. `input` [batch, in_channels, ...], `weight`
// [out_channels, in_channels / groups, ...] (transposed: [in_channels, out_channels / groups,
// ...]), `residual` and `out` [batch, out_channels, ...] are dense, contiguous or channels last by
// `channels_last`.
struct ConvolutionOperands {
  const void* input = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;      // [out_channels], added to each; null: none
  const void* residual = nullptr;  // added before relu; null: none
  void* out = nullptr;
};

// The implementation.
enum class ConvolutionLibrary { kAuto, kCudnn, kUnfold };

// `device` must be current.
Error convolve(const Convolution& conv, const ConvolutionOperands& operands, int device,
               cudaStream_t stream, ConvolutionLibrary library = ConvolutionLibrary::kAuto);

// The two implementations. NotSupported if cuDNN has no plan, NotFound without cuDNN. What a cuDNN
// plan does not fuse, and for the other implementation all of bias, residual and relu, is left to
// finish_convolution.
Error convolve_with_cudnn(const Convolution& conv, const ConvolutionOperands& operands, int device,
                          cudaStream_t stream);
// Number of cached plans of the calling thread.
size_t convolution_plans_kept();
Error convolve_unfolded(const Convolution& conv, const ConvolutionOperands& operands, int device,
                        cudaStream_t stream);

// out = out + bias + residual, with relu if requested, in one pass.
Error finish_convolution(const Convolution& conv, const ConvolutionOperands& operands,
                         cudaStream_t stream);

}  // namespace pteron::cuda
