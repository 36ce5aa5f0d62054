"""Dtypes of tensors, from the runtime's table."""

import enum

import pteron.runtime.python._native as _native

# The type of `TensorInfo.dtype()`: `ScalarType.Float` is 6. Values are those of the program format,
# ExecuTorch and torch.
ScalarType = enum.IntEnum("ScalarType", _native.SCALAR_TYPES)  # type: ignore[misc] # not a literal
