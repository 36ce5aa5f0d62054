"""Dtypes of tensors, from the runtime's table."""

import enum

import pteron.runtime.python._native as _native

# The type of `TensorInfo.dtype()`: `ScalarType.Float` is 6. Values are those of the program format,
# ExecuTorch and torch.
ScalarType = enum.IntEnum("ScalarType", _native.SCALAR_TYPES)  # type: ignore[misc] # not a literal

# Names of NumPy's dtypes; the others, as BFloat16, it lacks.
NUMPY_NAMES = {
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Half": "float16",
    "Float": "float32",
    "Double": "float64",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Bool": "bool",
}
