// Numbers of devices, element types, layouts and memory formats. Models ask for them while they are
// being opened, so these depend on nothing that needs starting.
#include <cstddef>

#include "pteron/backends/aoti/shims/shim_export.h"
#include "pteron/backends/aoti/slim/core/dtype.h"
#include "pteron/backends/aoti/slim/core/slim_tensor.h"

namespace pteron::aoti {

#define PTERON_CONSTANT_SHIM(name, number) \
  PTERON_AOTI_SHIM(int32_t, name)() { return number; }

PTERON_CONSTANT_SHIM(device_type_cpu, 0)
PTERON_CONSTANT_SHIM(device_type_cuda, 1)
PTERON_CONSTANT_SHIM(device_type_xpu, 12)
PTERON_CONSTANT_SHIM(device_type_mps, 13)
PTERON_CONSTANT_SHIM(device_type_meta, 14)
PTERON_CONSTANT_SHIM(device_type_privateuse1, 20)

#define PTERON_SCALAR_TYPE(name, number, bytes, torch_name, dlpack_code, dlpack_bits) \
  PTERON_CONSTANT_SHIM(dtype_##torch_name, number)
#include "pteron/runtime/core/scalar_types.inc"
#undef PTERON_SCALAR_TYPE
PTERON_CONSTANT_SHIM(dtype_complex32, 8)
PTERON_CONSTANT_SHIM(dtype_complex64, 9)
PTERON_CONSTANT_SHIM(dtype_complex128, 10)
// Named by every model's shared object, though no tensor here can have them.
PTERON_CONSTANT_SHIM(dtype_float8_e5m2fnuz, 25)
PTERON_CONSTANT_SHIM(dtype_float8_e4m3fnuz, 26)
PTERON_CONSTANT_SHIM(dtype_float8_e8m0fnu, 44)
PTERON_CONSTANT_SHIM(dtype_float4_e2m1fn_x2, 45)

// In bytes; 0 for a dtype that this runtime does not have.
PTERON_AOTI_SHIM(size_t, dtype_element_size)(int32_t dtype) {
  slim::DType type;
  return slim::to_dtype(dtype, &type) ? slim::element_size(type) : 0;
}

PTERON_CONSTANT_SHIM(layout_strided, 0)
PTERON_CONSTANT_SHIM(layout_sparse_coo, 1)
PTERON_CONSTANT_SHIM(layout_sparse_csr, 2)
PTERON_CONSTANT_SHIM(layout__mkldnn, 3)
PTERON_CONSTANT_SHIM(layout_sparse_csc, 4)
PTERON_CONSTANT_SHIM(layout_sparse_bsr, 5)
PTERON_CONSTANT_SHIM(layout_sparse_bsc, 6)
PTERON_CONSTANT_SHIM(layout_jagged, 7)

PTERON_CONSTANT_SHIM(memory_format_contiguous_format, 0)
PTERON_CONSTANT_SHIM(memory_format_preserve_format, 1)
PTERON_CONSTANT_SHIM(memory_format_channels_last, 2)
PTERON_CONSTANT_SHIM(memory_format_channels_last_3d, 3)

#undef PTERON_CONSTANT_SHIM

}  // namespace pteron::aoti
