// The operators of all devices, one function for each line of ops.inc:
//
//   Error topk(const Kernels& kernels, const SlimTensor& self, int64_t k, ..., TensorPtr& values, ...)
//
// parses and checks its arguments, allocates results and calls the device's kernel. It computes
// what torch's operator of that name does; deviations are documented at its definition.
#pragma once

#include "pteron/backends/aoti/ops/kernels.h"
#include "pteron/backends/aoti/ops/results.h"
#include "pteron/backends/aoti/ops/shim_macros.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"

namespace pteron::aoti::ops {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

#define AOTI_SHIM(name, since, ...) PTERON_DECLARE_OPERATOR(name, __VA_ARGS__)
#include "pteron/backends/aoti/ops/ops.inc"

}  // namespace pteron::aoti::ops
