// Constants for devices, dtypes, layouts and memory formats. Models call these while they are being
// loaded, so they depend on no initialized state.
#include "pteron/backends/aoti/shims/shims.h"
#include "pteron/backends/aoti/slim/core/dtype.h"

namespace pteron::aoti {

#define AOTI_COMMON_SHIM(...)
#define AOTI_CONSTANT_SHIM(name, since, number) \
  PTERON_AOTI_SHIM(int32_t, name)() { return number; }
#include "pteron/backends/aoti/shims/shims.inc"

// In bytes; 0 for an unsupported dtype.
PTERON_AOTI_SHIM(size_t, dtype_element_size)(int32_t dtype) {
  slim::DType type;
  return slim::to_dtype(dtype, &type) ? slim::element_size(type) : 0;
}

}  // namespace pteron::aoti
