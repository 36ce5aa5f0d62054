// A device's kernels: a function for each AOTI_KERNEL line of the families in its shims.inc; others
// are null. Arguments are validated and results allocated by the caller. A function launches the
// kernel, on the current stream if the device has streams, and may leave results unwritten on
// failure.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"

namespace pteron::slim {
struct Scalar;
}

namespace pteron::aoti {

#define AOTI_KERNEL(name, Call) struct Call;
#include "pteron/backends/aoti/ops/ops.inc"

struct Kernels {
#define AOTI_KERNEL(name, Call) Error (*name)(const Call&) = nullptr;
#define AOTI_KERNEL_OF(name, type, parameters) type(*name) parameters = nullptr;
#include "pteron/backends/aoti/ops/ops.inc"
};

// The kernels of a device type, for operators with one name on all devices. A device's library
// registers its kernels when it is opened; null if no library did. Thread-safe.
void register_kernels(DeviceType type, const Kernels* kernels);
const Kernels* find_kernels(DeviceType type);

}  // namespace pteron::aoti
