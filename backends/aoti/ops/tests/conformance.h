// The suite of operators that every device passes: calls of its shims, with results that torch made
// (//backends/aoti/ops:goldens, one file for each family).
//
//   // One file of a backend, in its tests:
//   namespace pteron::aoti::conformance {
//   DeviceShims device_shims() { return {TestDevice..., kShims}; }
//   }  // namespace pteron::aoti::conformance
//
// and a cc_test of it over //backends/aoti/ops/tests:conformance and the backend's library.
#pragma once

#include <map>
#include <set>
#include <string>

#include "pteron/backends/aoti/ops/tests/binding.h"
#include "pteron/runtime/core/device.h"

namespace pteron::aoti::conformance {

struct DeviceShims {
  Device device;
  std::map<std::string, Shim> shims;
  const char* why_not;  // null, or why there is no such device: the cases are skipped
  // Types of elements that the device has not; there are no cases of these.
  std::set<std::string> lacks = {};
};

// Defined by each backend that joins.
DeviceShims device_shims();

}  // namespace pteron::aoti::conformance
