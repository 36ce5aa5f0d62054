// Convolution of one channel with one kernel, in two dimensions: the inner part of depthwise
// convolutions.
#pragma once

#include <cstdint>

#include "backends/cpu/runtime/kernels/convolution.h"

namespace pteron::cpu {

// Whether depthwise_plane() takes a shape: nothing happens along its first dimension.
bool is_depthwise_plane(const ConvolutionShape& shape);

// Floats of workspace that a plane needs. It starts as zeros and serves planes of one shape in
// turn.
int64_t depthwise_workspace(const ConvolutionShape& shape);

// Floats of one row of the padded input in the workspace.
int64_t depthwise_row_length(const ConvolutionShape& shape);

// One plane of `out` from one plane of `in`, as convolve() defines it.
using DepthwisePlane = void (*)(const ConvolutionShape& shape, const float* in, const float* weight,
                                float bias, float* workspace, float* out);

// For the widest registers that this machine has.
DepthwisePlane depthwise_plane();

}  // namespace pteron::cpu
