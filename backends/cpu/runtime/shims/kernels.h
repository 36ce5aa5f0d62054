// What a CPU does for the operators of backends/aoti/ops: the functions of kernels.inc.
#pragma once

#include "pteron/backends/aoti/ops/kernels.h"

namespace pteron::cpu {

using aoti::PackedConvolutionCall;

const aoti::Kernels& kernels();

#define AOTI_KERNEL(name, Call) Error name(const aoti::Call& call);
#define AOTI_KERNEL_OF(name, type, parameters) type name parameters;
#define AOTI_HOST_KERNEL_OF AOTI_KERNEL_OF
#include "pteron/backends/aoti/ops/kernels.inc"

}  // namespace pteron::cpu
