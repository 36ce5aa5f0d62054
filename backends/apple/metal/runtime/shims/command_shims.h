// The C functions of shims.inc that are not operators.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pteron/backends/aoti/shims/shim_export.h"

namespace pteron::metal {

using aoti::AOTITorchError;
using aoti::AtenTensorHandle;

// The opaque types of the C ABI.
struct ShaderLibrary;
struct KernelFunction;
using CommandBlock = void (*)(KernelFunction* func, void* user_data);

#define AOTI_COMMON_SHIM(name, since, type, parameters) PTERON_AOTI_SHIM(type, name) parameters;
#include "pteron/backends/apple/metal/runtime/shims/shims.inc"

}  // namespace pteron::metal
