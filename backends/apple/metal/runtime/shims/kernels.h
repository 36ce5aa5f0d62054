// What Metal does for the operators of backends/aoti/ops: functions of kernels.inc, those that its
// families call.
#pragma once

#include "pteron/backends/aoti/ops/kernels.h"

namespace pteron::mps {

const aoti::Kernels& kernels();

}  // namespace pteron::mps

namespace pteron::metal {

#define AOTI_KERNEL(name, Call) Error name(const aoti::Call& call);
#define AOTI_KERNEL_OF(name, type, parameters) type name parameters;
#define AOTI_HOST_KERNEL_OF(...)
#include "pteron/backends/aoti/ops/kernels.inc"

}  // namespace pteron::metal
