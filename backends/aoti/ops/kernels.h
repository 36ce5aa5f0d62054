// What a device brings for the operators of this folder: the functions of the lines AOTI_KERNEL of
// the families in its shims.inc; others are null. Calls come with arguments that are checked and
// results that are allocated; a function launches the work, on the current stream where there are
// streams, and may leave results unwritten when it fails.
#pragma once

#include <cstdint>
#include <optional>

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

// The kernels of a type of device, for operators that models call by one name on all devices. The
// library that brings them registers them when it is opened; null for a type that none did.
// Thread-safe.
void register_kernels(DeviceType type, const Kernels* kernels);
const Kernels* find_kernels(DeviceType type);

}  // namespace pteron::aoti
