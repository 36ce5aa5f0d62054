// Operators that models call by one name on all devices, and which the devices therefore bring.
//
//   const bool registered = (register_index_put(DeviceType::CUDA, &index_put), true);
//
// Registered before any model for the device is loaded (a static initialiser of the library that
// brings its shims). Thread-safe.
#pragma once

#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// out = self with `values`, broadcast, at the elements that `indices` name (null: a whole
// dimension); with `accumulate` they are added. All are on one device. `out` may be `self`; it is
// not touched on failure.
using IndexPut = Error (*)(const slim::SlimTensor& out, const slim::SlimTensor& self,
                           Span<const slim::SlimTensor* const> indices,
                           const slim::SlimTensor& values, bool accumulate);

// The last registration for a type wins.
void register_index_put(DeviceType type, IndexPut function);

// Null for a type that nobody registered.
IndexPut find_index_put(DeviceType type);

}  // namespace pteron::aoti
