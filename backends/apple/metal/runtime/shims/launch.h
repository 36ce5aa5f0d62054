// Launches our kernels, which are source text; names in capitals are macros set at compilation.
//
//   #define PTERON_PARAMS struct Params { int64_t rows, columns; };
//   PTERON_PARAMS
//   const char kSource[] = PTERON_TEXT(PTERON_PARAMS) R"MTL(...)MTL";
//   ...
//   const Params params{...};
//   return launch(kSource, {{"T", DType::Float}}, "product", {memory(out), memory(a), bytes(params)},
//                 {columns, rows, 1});
//
// launches kernel `product` of the text, compiled with T defined as float, for a grid of threads.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "pteron/backends/aoti/ops/results.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/backends/aoti/slim/core/tensor_copy.h"
#include "pteron/backends/apple/metal/runtime/gpu.h"

namespace pteron::metal {

// What a macro expands to, as text: a struct of arguments for C++ and the shader, where int64_t is
// `long`.
#define PTERON_TEXT(...) PTERON_TEXT_OF_(__VA_ARGS__)
#define PTERON_TEXT_OF_(...) #__VA_ARGS__

using slim::DType;
using slim::SlimTensor;
using slim::TensorPtr;

inline constexpr int64_t kMostDims = 16;

// The Metal type of a dtype; null if there is none (double, complex).
const char* element_of(DType dtype);

// A macro for a dtype NAME; also defines NAME_SUM, its accumulation type, and NAME_IS_INTEGER.
struct ElementMacro {
  const char* name;
  DType dtype;
};

// The largest possible threadgroup, filled along x first.
Threads group_for(Threads grid, uint64_t most);

// Waits until the host may access device memory.
Error wait_for_device();

// Row-major with `dtype`: an alias if it already is.
Result<TensorPtr> converted(const SlimTensor& tensor, DType dtype);

// An element type of that many bytes; an unsupported dtype if there is none.
DType dtype_of_bytes(size_t nbytes);

inline Argument memory(const SlimTensor& tensor) { return {tensor.data(), 0}; }
template <typename T>
Argument bytes(const T& value) {
  return {&value, sizeof value};
}

// `source` must live as long as the process; compiled code is cached. An empty grid launches
// nothing. InvalidType for a dtype that Metal lacks.
Error launch(const char* source, std::initializer_list<ElementMacro> macros, const char* name,
             std::initializer_list<Argument> arguments, Threads grid);

}  // namespace pteron::metal
