// Validation and conversion of C ABI arguments.
#pragma once

#include <cstdint>

#include "pteron/backends/aoti/shims/c_boundary.h"
#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"
#include "pteron/runtime/core/device.h"
#include "pteron/runtime/core/error.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/span.h"

namespace pteron::aoti {

// InvalidArgument for a null handle or an undefined tensor; `name` is the parameter's.
inline Error check_defined(AtenTensorHandle tensor, const char* name) {
  PTERON_CHECK_OR_RETURN(tensor && tensor->is_defined(), Error::InvalidArgument, "%s is %s", name,
                         tensor ? "an undefined tensor" : "a null handle");
  return Error::Ok;
}

// InvalidArgument for a null handle.
inline Error check_handle(AtenTensorHandle tensor, const char* name) {
  PTERON_CHECK_OR_RETURN(tensor, Error::InvalidArgument, "%s is a null handle", name);
  return Error::Ok;
}

inline Error check_pointer(const void* pointer, const char* name) {
  PTERON_CHECK_OR_RETURN(pointer, Error::InvalidArgument, "%s is a null pointer", name);
  return Error::Ok;
}

Result<slim::DType> dtype_argument(int32_t dtype);

// A device index of -1, which CPU code passes, becomes 0 there; on other devices it is kept and
// means the current device.
Result<Device> device_argument(int32_t device_type, int32_t device_index);

// `values` may be null only if `length` is 0.
Result<Span<const int64_t>> list_argument(const int64_t* values, int64_t length, const char* name);

// Wraps a negative dimension. A 0-d tensor counts as 1-d.
Result<size_t> dim_argument(int64_t dim, size_t rank);

// The body of a shim that returns the tensor of a Result.
template <typename Make>
AOTITorchError give_tensor(const char* shim, AtenTensorHandle* ret, Make&& make) {
  return c_boundary(shim, [&]() -> Error {
    PTERON_RETURN_IF_ERROR(check_pointer(ret, "the result"));
    PTERON_ASSIGN_OR_RETURN(slim::TensorPtr tensor, make());
    *ret = tensor.release();
    return Error::Ok;
  });
}

}  // namespace pteron::aoti
