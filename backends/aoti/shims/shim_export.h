// Defines a shim: its private name, C linkage, default visibility.
//
//   PTERON_AOTI_SHIM(int32_t, get_dim)(AtenTensorHandle tensor, int64_t* ret_dim) { ... }
//
// defines ptrn_torch_get_dim, which models import as aoti_torch_get_dim.
#pragma once

#include <cstdint>

namespace pteron::slim {
class SlimTensor;
}

#define PTERON_SHIM_EXPORT extern "C" __attribute__((visibility("default")))

// `name` is what follows "aoti_torch_".
#define PTERON_AOTI_SHIM(return_type, name) PTERON_SHIM_EXPORT return_type ptrn_torch_##name

namespace pteron::aoti {

// The C ABI's opaque tensor pointer and its status codes.
using AtenTensorHandle = slim::SlimTensor*;
using AOTITorchError = int32_t;
inline constexpr AOTITorchError kAotiSuccess = 0;
inline constexpr AOTITorchError kAotiFailure = 1;

// A complex value is passed as a struct of two, like the C ABI's own type.
struct AbiComplexFloat {
  float real, imag;
};
struct AbiComplexDouble {
  double real, imag;
};

}  // namespace pteron::aoti
