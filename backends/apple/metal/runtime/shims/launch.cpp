#include "pteron/backends/apple/metal/runtime/shims/launch.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "pteron/backends/apple/metal/runtime/shims/rows.h"

namespace pteron::metal {
namespace {

// Source text with macros; each combination is compiled once.
Result<Library*> library_of(const char* source, std::initializer_list<ElementMacro> macros) {
  static std::mutex mutex;
  static auto& libraries =
      *new std::map<std::pair<const char*, std::string>, std::unique_ptr<Library>>;
  std::string defines;
  for (const ElementMacro& macro : macros) {
    const char* const element = element_of(macro.dtype);
    PTERON_CHECK_OR_RETURN(
        element, Error::InvalidType,
        "%s: Metal has no such element; lower the model in another precision, or "
        "leave the operator to another backend",
        slim::name_of(macro.dtype));
    const bool is_integer =
        macro.dtype != DType::Float && macro.dtype != DType::Half && macro.dtype != DType::BFloat16;
    const char* const sum = !is_integer ? "float" : macro.dtype == DType::Long ? "long" : "int";
    defines += std::string("#define ") + macro.name + " " + element + "\n#define " + macro.name +
               "_SUM " + sum + "\n#define " + macro.name + "_IS_INTEGER " +
               (is_integer ? "true" : "false") + "\n";
  }
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Library>& known = libraries[{source, defines}];
  if (!known) {
    PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
    const std::string begin =
        "#include <metal_stdlib>\nusing namespace metal;\n#define int64_t long\n"
        // Of backends/aoti/ops/host_device.h.
        "#define PTERON_HOST_DEVICE\n#define PTERON_CONSTANT constant\n"
        "#define PTERON_DEVICE_MEMORY device\n#define PTERON_THREAD thread\n";
    PTERON_ASSIGN_OR_RETURN(known, gpu->compile(begin + kRowText + defines + source));
  }
  return known.get();
}

}  // namespace

const char* element_of(DType dtype) {
  switch (dtype) {
    case DType::Float:
      return "float";
    case DType::Half:
      return "half";
    case DType::BFloat16:
      return "bfloat";
    case DType::Bool:
      return "bool";
    case DType::Byte:
      return "uchar";
    case DType::Char:
      return "char";
    case DType::Short:
      return "short";
    case DType::Int:
      return "int";
    case DType::Long:
      return "long";
    default:
      return nullptr;
  }
}

DType dtype_of_bytes(size_t nbytes) {
  return nbytes == 1   ? DType::Byte
         : nbytes == 2 ? DType::Short
         : nbytes == 4 ? DType::Int
         : nbytes == 8 ? DType::Long
                       : DType::ComplexDouble;
}

Threads group_for(Threads grid, uint64_t most) {
  Threads group;
  for (size_t i = 0; i < 3; ++i) {
    group[i] = std::max<uint64_t>(1, std::min(grid[i], most));
    most /= group[i];
  }
  return group;
}

Error wait_for_device() {
  PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
  return gpu->wait();
}

Error launch(const char* source, std::initializer_list<ElementMacro> macros, const char* name,
             std::initializer_list<Argument> arguments, Threads grid) {
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return Error::Ok;
  PTERON_ASSIGN_OR_RETURN(Library* const library, library_of(source, macros));
  PTERON_ASSIGN_OR_RETURN(Function* const function, library->find(name));
  return function->dispatch(
      {arguments.begin(), arguments.size()}, grid,
      group_for(grid, std::min<uint64_t>(function->max_threads_per_group(), 256)));
}

}  // namespace pteron::metal
