// The registry of kernels, which a program calls outside its delegates.
//
//   Error my_relu(KernelContext& context, Span<EValue* const> arguments);
//   static const Kernel kKernels[] = {{"my::relu.out", my_relu}};
//   static const bool registered = register_kernels(kKernels).ok();
//
// A name is the operator's in the program: "aten::add.out", without a dot for the default overload.
// Arguments come in the order of the operator's schema, outputs included, followed by what it
// returns (an out-variant thus names its out twice).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/kernel/kernel_context.h"

namespace pteron {

// Never throws. May change only its outputs, which it resizes.
using KernelFunction = Error (*)(KernelContext& context, Span<EValue* const> arguments);

// Memory behavior of a kernel.
enum class KernelMemory : uint8_t {
  // Writes outputs while reading inputs: a call whose last argument overlaps another one is an
  // error, at load if the memory is planned, otherwise at run time.
  Separate,
  // The same, but overlap is allowed.
  Shared,
  // Makes an output alias another argument. The output may have no memory before; its memory is
  // restored when the next run starts.
  View,
};

struct Kernel {
  std::string_view name;
  KernelFunction function;
  KernelMemory memory = KernelMemory::Separate;
};

// Registers a table that lives as long as the process. AlreadyLoaded lists the kernels that were
// registered before; then none is added. Thread-safe; usually called by a static initializer.
Error register_kernels(Span<const Kernel> kernels);

// Null if there is none; lives as long as the process. Thread-safe.
const Kernel* find_kernel(std::string_view name);

// The names of all kernels, sorted. Thread-safe.
std::vector<std::string_view> registered_kernels();

}  // namespace pteron
