"""The element types of tensors, from the runtime's table of them."""

import enum

import pteron.runtime.python._native as _native

# What `TensorInfo.dtype()` returns: `ScalarType.Float` is 6. The numbers are those of the program
# format, of ExecuTorch and of torch.
ScalarType = enum.IntEnum("ScalarType", _native.SCALAR_TYPES)  # type: ignore[misc] # not a literal
