#include "pteron/backends/apple/metal/runtime/shims/command_shims.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pteron/backends/aoti/shims/arguments.h"
#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/failed_check.h"
#include "pteron/backends/apple/metal/runtime/gpu.h"
#include "pteron/backends/apple/metal/runtime/shims/launch.h"

namespace pteron::metal {

struct KernelFunction {
  Function* function = nullptr;  // null: unavailable
  Error::Code code = Error::Ok;  // reason
  std::string message;
};

struct ShaderLibrary {
  std::unique_ptr<Library> library;  // null: the text does not compile
  Error::Code code = Error::Ok;
  std::string message;
  std::vector<std::unique_ptr<KernelFunction>> functions;
};

namespace {

using aoti::c_boundary;
using aoti::check_pointer;

constexpr size_t kMaxArguments = 31;

// The command block that the calling thread is encoding.
struct Encoding {
  const KernelFunction* block = nullptr;    // being run
  const KernelFunction* started = nullptr;  // being encoded
  bool dispatched = false;
  size_t count = 0;
  Argument arguments[kMaxArguments];
  int64_t numbers[kMaxArguments];
  bool is_set[kMaxArguments];
};
thread_local Encoding encoding;

// Runs `body`. Compiled code ignores return codes, so a failure marks the run as failed.
template <typename Body>
AOTITorchError part_of_run(const char* shim, Body&& body) {
  return c_boundary(shim, [&]() -> Error {
    Error error = body();
    if (!error.ok()) aoti::fail_run(Error(error.code(), error.message()));
    return error;
  });
}

Error check_started(const KernelFunction* func) {
  PTERON_CHECK_OR_RETURN(func && encoding.started == func, Error::InvalidState,
                         "the function's encoding has not been started");
  PTERON_CHECK_OR_RETURN(!encoding.dispatched, Error::InvalidState,
                         "%s has been dispatched; one encoding is one dispatch",
                         func->function->name().c_str());
  return Error::Ok;
}

Error set_argument(const KernelFunction* func, unsigned index, Argument argument) {
  PTERON_RETURN_IF_ERROR(check_started(func));
  PTERON_CHECK_OR_RETURN(index < kMaxArguments, Error::InvalidArgument,
                         "%s: argument %u, expected 0 to %zu", func->function->name().c_str(),
                         index, kMaxArguments - 1);
  PTERON_CHECK_OR_RETURN(!encoding.is_set[index], Error::InvalidState,
                         "%s: argument %u is set already", func->function->name().c_str(), index);
  encoding.is_set[index] = true;
  encoding.arguments[index] = argument;
  encoding.count = std::max(encoding.count, static_cast<size_t>(index) + 1);
  return Error::Ok;
}

Error dispatch(const KernelFunction* func, const uint64_t* length, size_t dims,
               const uint64_t* group_size, size_t group_dims) {
  PTERON_RETURN_IF_ERROR(check_started(func));
  Function& function = *func->function;
  PTERON_CHECK_OR_RETURN(length && dims >= 1 && dims <= 3, Error::InvalidArgument,
                         "%s: a grid of %zu dimensions, expected 1 to 3", function.name().c_str(),
                         dims);
  PTERON_CHECK_OR_RETURN(!group_size || (group_dims >= 1 && group_dims <= 3),
                         Error::InvalidArgument, "%s: groups of %zu dimensions, expected 1 to 3",
                         function.name().c_str(), group_dims);
  for (size_t i = 0; i < encoding.count; ++i) {
    PTERON_CHECK_OR_RETURN(encoding.is_set[i], Error::InvalidState,
                           "%s: argument %zu of %zu is not set", function.name().c_str(), i,
                           encoding.count);
  }
  encoding.dispatched = true;
  Threads grid = {1, 1, 1}, group = {1, 1, 1};
  std::copy(length, length + dims, grid.begin());
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return Error::Ok;  // nothing to do
  if (group_size) {
    std::copy(group_size, group_size + group_dims, group.begin());
  } else {
    group = group_for(grid, function.max_threads_per_group());
  }
  return function.dispatch({encoding.arguments, encoding.count}, grid, group);
}

}  // namespace

PTERON_AOTI_SHIM(AOTITorchError, mps_create_shader_library)
(const char* metal_shader_source, ShaderLibrary** library_handle) {
  return c_boundary("aoti_torch_mps_create_shader_library", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_pointer(metal_shader_source, "metal_shader_source"));
    PTERON_RETURN_IF_ERROR(check_pointer(library_handle, "library_handle"));
    auto made = std::make_unique<ShaderLibrary>();
    Error error = [&]() -> Error {
      PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
      PTERON_ASSIGN_OR_RETURN(made->library, gpu->compile(metal_shader_source));
      return Error::Ok;
    }();
    made->code = error.code();
    if (!error.ok()) made->message = error.message();
    *library_handle = made.release();
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_delete_shader_library)(ShaderLibrary* library_handle) {
  delete library_handle;
  return aoti::kAotiSuccess;
}

PTERON_AOTI_SHIM(AOTITorchError, mps_get_kernel_function)
(ShaderLibrary* library_handle, const char* kernel_name, KernelFunction** function_handle) {
  return c_boundary("aoti_torch_mps_get_kernel_function", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_pointer(library_handle, "library_handle"));
    PTERON_RETURN_IF_ERROR(check_pointer(kernel_name, "kernel_name"));
    PTERON_RETURN_IF_ERROR(check_pointer(function_handle, "function_handle"));
    auto made = std::make_unique<KernelFunction>();
    made->code = library_handle->code;
    made->message = library_handle->message;
    if (library_handle->library) {
      Result<Function*> found = library_handle->library->find(kernel_name);
      if (found.ok()) {
        made->function = *found;
      } else {
        made->code = found.error().code();
        made->message = found.error().message();
      }
    }
    *function_handle = made.get();
    library_handle->functions.push_back(std::move(made));
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_run_command_block)
(KernelFunction* func, CommandBlock callback, void* user_data) {
  return part_of_run("aoti_torch_mps_run_command_block", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_pointer(func, "func"));
    PTERON_CHECK_OR_RETURN(callback, Error::InvalidArgument, "callback is a null pointer");
    if (!func->function) return Error(func->code, func->message);
    PTERON_CHECK_OR_RETURN(!encoding.block, Error::InvalidState, "command blocks do not nest");
    encoding.block = func;
    encoding.started = nullptr;
    callback(func, user_data);
    const bool complete = encoding.started && encoding.dispatched;
    encoding.block = encoding.started = nullptr;
    PTERON_CHECK_OR_RETURN(complete || aoti::run_has_failed(), Error::InvalidState,
                           "%s: the command block dispatched nothing",
                           func->function->name().c_str());
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(void, mps_shared_callback)(KernelFunction* func, void* user_data) {
  // Created by compiled code, which uses the same C++ library.
  (*static_cast<std::function<void(KernelFunction*)>*>(user_data))(func);
}

PTERON_AOTI_SHIM(AOTITorchError, mps_start_encoding)(KernelFunction* func) {
  return part_of_run("aoti_torch_mps_start_encoding", [&]() -> Error {
    PTERON_CHECK_OR_RETURN(func && encoding.block == func && !encoding.started, Error::InvalidState,
                           "an encoding starts once in the command block of its function");
    encoding.started = func;
    encoding.dispatched = false;
    encoding.count = 0;
    std::fill(std::begin(encoding.is_set), std::end(encoding.is_set), false);
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_set_arg_tensor)
(KernelFunction* func, unsigned idx, AtenTensorHandle tensor) {
  return part_of_run("aoti_torch_mps_set_arg_tensor", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(aoti::check_defined(tensor, "tensor"));
    if (tensor->device().type != DeviceType::Metal) {
      // A scalar computed by the host.
      PTERON_CHECK_OR_RETURN(tensor->dim() == 0, Error::InvalidArgument,
                             "argument %u is %s on %s, expected memory of the device", idx,
                             tensor->describe().c_str(), describe(tensor->device()).c_str());
      return set_argument(func, idx, {tensor->data(), tensor->item_size()});
    }
    return set_argument(func, idx, {tensor->data(), 0});
  });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_set_arg_int)
(KernelFunction* func, unsigned idx, int64_t val) {
  return part_of_run("aoti_torch_mps_set_arg_int", [&]() -> Error {
    if (idx < kMaxArguments) encoding.numbers[idx] = val;
    return set_argument(func, idx, {&encoding.numbers[idx], sizeof val});
  });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_dispatch_single)(KernelFunction* func, uint64_t length) {
  return part_of_run("aoti_torch_mps_dispatch_single",
                     [&] { return dispatch(func, &length, 1, nullptr, 0); });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_dispatch_single_with_group_size)
(KernelFunction* func, uint64_t length, uint64_t group_size) {
  return part_of_run("aoti_torch_mps_dispatch_single_with_group_size",
                     [&] { return dispatch(func, &length, 1, &group_size, 1); });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_dispatch_array)
(KernelFunction* func, const uint64_t* length, size_t length_size) {
  return part_of_run("aoti_torch_mps_dispatch_array",
                     [&] { return dispatch(func, length, length_size, nullptr, 0); });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_dispatch_array_with_group_size)
(KernelFunction* func, const uint64_t* length, size_t length_size, const uint64_t* group_size,
 size_t group_size_size) {
  return part_of_run("aoti_torch_mps_dispatch_array_with_group_size", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_pointer(group_size, "group_size"));
    return dispatch(func, length, length_size, group_size, group_size_size);
  });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_malloc)(void** buffer, size_t num_bytes) {
  return c_boundary("aoti_torch_mps_malloc", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_pointer(buffer, "buffer"));
    PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
    PTERON_ASSIGN_OR_RETURN(*buffer, gpu->allocate(num_bytes > 0 ? num_bytes : 1));
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_free)(void* ptr) {
  return c_boundary("aoti_torch_mps_free", [&]() -> Error {
    if (!ptr) return Error::Ok;
    PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
    gpu->release(ptr);
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_memcpy)
(void* buffer, size_t constant_offset, size_t bytes_read, size_t data_size,
 uint8_t* constants_start) {
  return c_boundary("aoti_torch_mps_memcpy", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_pointer(buffer, "buffer"));
    PTERON_RETURN_IF_ERROR(check_pointer(constants_start, "constants_start"));
    PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
    PTERON_RETURN_IF_ERROR(gpu->wait());
    std::memcpy(static_cast<char*>(buffer) + constant_offset, constants_start + bytes_read,
                data_size);
    return Error::Ok;
  });
}

PTERON_AOTI_SHIM(AOTITorchError, mps_copy_buffer)
(void* src_buffer, void* dst_buffer, size_t data_size, size_t src_offset, size_t dst_offset) {
  return c_boundary("aoti_torch_mps_copy_buffer", [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_pointer(src_buffer, "src_buffer"));
    PTERON_RETURN_IF_ERROR(check_pointer(dst_buffer, "dst_buffer"));
    PTERON_ASSIGN_OR_RETURN(Gpu* const gpu, find_gpu());
    PTERON_RETURN_IF_ERROR(gpu->wait());
    std::memmove(static_cast<char*>(dst_buffer) + dst_offset,
                 static_cast<const char*>(src_buffer) + src_offset, data_size);
    return Error::Ok;
  });
}

}  // namespace pteron::metal
