// What the kernels of operators are made of: kernels of ours, as text of the folder kernels/.
//
//   const Params params{...};
//   return launch(kProductSource, {{"T", DType::Float}}, "product", {memory(out), memory(a), bytes(params)},
//                 {columns, rows, 1});
//
// is kernel `product` of the text, with T a macro that is float in it, for a grid of threads.
#pragma once

#include <initializer_list>

#include "pteron/backends/aoti/ops/results.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/apple/metal/runtime/gpu.h"

namespace pteron::metal {

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

// The type of an element in Metal's language; null where it has none (double, complex).
const char* element_of(DType dtype);

// A macro of a text: an element; with "_SUM" behind its name what sums of it are kept in, and with
// "_IS_INTEGER" whether it is one.
struct ElementMacro {
  const char* name;
  DType dtype;
};

// As many threads of a group as there may be, along x first.
Threads group_for(Threads grid, uint64_t most);

// Until the host may read and write memory of the device.
Error wait_for_device();

// Row-major and of `dtype`: an alias where it is so already.
Result<TensorPtr> converted(const SlimTensor& tensor, DType dtype);

// An element of as many bytes; one that Metal has not if there is none.
DType dtype_of_bytes(size_t nbytes);

inline Argument memory(const SlimTensor& tensor) { return {tensor.data(), 0}; }
template <typename T>
Argument bytes(const T& value) {
  return {&value, sizeof value};
}

// `source` lives as long as the process; what is compiled of it is kept. Nothing is done for a grid
// with a 0 in it. InvalidType for an element that Metal has not.
Error launch(const char* source, std::initializer_list<ElementMacro> macros, const char* name,
             std::initializer_list<Argument> arguments, Threads grid);

}  // namespace pteron::metal
