// Declarations of the C functions of shims.inc, with private names. A definition that differs from
// the list does not compile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/backends/aoti/shims/shim_export.h"

namespace pteron::aoti {

#define AOTI_COMMON_SHIM(name, since, type, parameters) PTERON_AOTI_SHIM(type, name) parameters;
#define AOTI_CONSTANT_SHIM(name, since, number) PTERON_AOTI_SHIM(int32_t, name)();
#include "pteron/backends/aoti/shims/shims.inc"
#undef AOTI_COMMON_SHIM
#undef AOTI_CONSTANT_SHIM

}  // namespace pteron::aoti
