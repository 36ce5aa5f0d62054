// Kernels by name: what a program calls outside its delegates.
//
//   Error my_relu(KernelContext& context, Span<EValue* const> arguments);
//   static const Kernel kKernels[] = {{"my::relu.out", my_relu}};
//   static const bool registered = register_kernels(kKernels).ok();
//
// A name is that of the operator in the program: "aten::add.out", or without the dot where the
// overload is the default one. Arguments come in the order of the operator's schema, outputs
// included, followed by what it returns (an out-variant thus names its out twice).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/span.h"
#include "pteron/runtime/kernel/kernel_context.h"

namespace pteron {

// Never throws. May change only its outputs, which it resizes to what it computed.
using KernelFunction = Error (*)(KernelContext& context, Span<EValue* const> arguments);

// What a kernel does with the memory of its arguments.
enum class KernelMemory : uint8_t {
  // Writes to its outputs' while it reads the others': a call whose last argument overlaps another
  // one is refused, when the method is loaded if the memory is planned, otherwise when it runs.
  Separate,
  // The same, and is right where they overlap.
  Shared,
  // Gives an output the memory of another argument. The output may have none before, and gets back
  // what it had when the next run begins.
  View,
};

struct Kernel {
  std::string_view name;
  KernelFunction function;
  KernelMemory memory = KernelMemory::Separate;
};

// Adds a table that lives as long as the process. AlreadyLoaded names every kernel that was there
// before, and then adds none of the table. Thread-safe; usually called by a static initialiser.
Error register_kernels(Span<const Kernel> kernels);

// Null if there is none; lives as long as the process. Thread-safe.
const Kernel* find_kernel(std::string_view name);

// The names of all kernels, sorted. Thread-safe.
std::vector<std::string_view> registered_kernels();

}  // namespace pteron
