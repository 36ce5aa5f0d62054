// Scalar math functions.
#include <cmath>

#include "pteron/backends/aoti/shims/shim_export.h"

namespace pteron::cpu {

PTERON_SHIM_EXPORT float ptrn_vexpf_u10(float a) { return std::exp(a); }

}  // namespace pteron::cpu
