"""Calls the shims of a native library on torch tensors, as a compiled model would.

    shims = ShimLibrary("libcpu_backend.so")
    values, indices = shims.call("cpu_topk", x, 3, 1, True, True, results=2)

Arguments are converted by their type: a tensor to a handle, None to a null pointer, a list of
integers to a pointer and a length, an int to int64, a bool to int32, a float to double, a str to
bytes. `Optional(x)` passes a pointer to x's value (null for None). Results are the last arguments,
pointers to handles.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import torch

_DTYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex32: 8,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.uint16: 27,
    torch.uint32: 28,
    torch.uint64: 29,
}
_TORCH_DTYPES = {number: dtype for dtype, number in _DTYPES.items()}


def dtype_number(dtype: torch.dtype) -> int:
    """The C ABI's number of a dtype."""
    return _DTYPES[dtype]


class ShimError(Exception):
    """A shim returned a failure; the message is what it said."""


class Optional:
    """An optional argument that the C ABI passes by pointer."""

    def __init__(self, value: torch.Tensor | int | float | str | None, is_int32: bool = False):
        self.value = value
        self.is_int32 = is_int32


class ShimLibrary:
    """The shims of one opened library."""

    def __init__(self, path: str):
        self._library = ctypes.CDLL(path)

    def handle(self, tensor: torch.Tensor) -> ctypes.c_void_p:
        """A new handle over the tensor's memory, which must stay alive."""
        handle = ctypes.c_void_p()
        count = tensor.dim()
        sizes = (ctypes.c_int64 * count)(*tensor.shape)
        strides = (ctypes.c_int64 * count)(*tensor.stride())
        self._checked(
            "create_tensor_from_blob",
            ctypes.c_void_p(tensor.untyped_storage().data_ptr()),
            ctypes.c_int64(count),
            sizes,
            strides,
            ctypes.c_int64(tensor.storage_offset()),
            ctypes.c_int32(_DTYPES[tensor.dtype]),
            ctypes.c_int32(0),
            ctypes.c_int32(-1),
            ctypes.byref(handle),
        )
        return handle

    def tensor(self, handle: ctypes.c_void_p) -> torch.Tensor:
        """A copy of what a handle refers to, with its strides; deletes the handle."""
        try:
            dim, offset, nbytes = ctypes.c_int64(), ctypes.c_int64(), ctypes.c_int64()
            dtype = ctypes.c_int32()
            sizes, strides = (ctypes.POINTER(ctypes.c_int64)() for _ in range(2))
            data = ctypes.c_void_p()
            self._checked("get_dim", handle, ctypes.byref(dim))
            self._checked("get_sizes", handle, ctypes.byref(sizes))
            self._checked("get_strides", handle, ctypes.byref(strides))
            self._checked("get_dtype", handle, ctypes.byref(dtype))
            self._checked("get_storage_offset", handle, ctypes.byref(offset))
            self._checked("get_storage_size", handle, ctypes.byref(nbytes))
            self._checked("get_data_ptr", handle, ctypes.byref(data))
            torch_dtype = _TORCH_DTYPES[dtype.value]
            begin = offset.value * torch_dtype.itemsize
            raw = ctypes.string_at((data.value or 0) - begin, nbytes.value)
            storage = torch.frombuffer(bytearray(raw) or bytearray(16), dtype=torch.uint8)
            shape = [sizes[i] for i in range(dim.value)]
            steps = [strides[i] for i in range(dim.value)]
            usable = storage.numel() // torch_dtype.itemsize * torch_dtype.itemsize
            return storage[:usable].view(torch_dtype).as_strided(shape, steps, offset.value)
        finally:
            self._library.ptrn_torch_delete_tensor_object(handle)

    def call(self, name: str, *arguments: Any, results: int = 0) -> Any:
        """Calls `ptrn_torch_<name>`; one result alone, several as a tuple."""
        keep: list[Any] = []
        handles: list[ctypes.c_void_p] = []
        converted: list[Any] = []
        for argument in arguments:
            converted.extend(self._convert(argument, keep, handles))
        outputs = [ctypes.c_void_p() for _ in range(results)]
        try:
            self._checked(name, *converted, *(ctypes.byref(output) for output in outputs))
        finally:
            for handle in handles:
                self._library.ptrn_torch_delete_tensor_object(handle)
        tensors = tuple(self.tensor(output) for output in outputs)
        return tensors[0] if results == 1 else tensors or None

    @contextlib.contextmanager
    def prepared(self, name: str, *arguments: Any) -> Iterator[Callable[[], None]]:
        """A call whose arguments are converted already and whose one result is deleted: for
        measurements. It must have succeeded once as a `call`."""
        keep: list[Any] = []
        handles: list[ctypes.c_void_p] = []
        converted: list[Any] = []
        for argument in arguments:
            converted.extend(self._convert(argument, keep, handles))
        function, delete = (
            getattr(self._library, f"ptrn_torch_{n}") for n in (name, "delete_tensor_object")
        )
        output = ctypes.c_void_p()
        result = ctypes.byref(output)

        def call() -> None:
            function(*converted, result)
            delete(output)

        try:
            yield call
        finally:
            for handle in handles:
                delete(handle)

    def _convert(self, argument: Any, keep: list[Any], handles: list[ctypes.c_void_p]) -> list[Any]:
        if isinstance(argument, torch.Tensor):
            keep.append(argument)
            handles.append(self.handle(argument))
            return [handles[-1]]
        if isinstance(argument, bool):
            return [ctypes.c_int32(argument)]
        if isinstance(argument, int):
            return [ctypes.c_int64(argument)]
        if isinstance(argument, float):
            return [ctypes.c_double(argument)]
        if isinstance(argument, str):
            return [ctypes.c_char_p(argument.encode())]
        if isinstance(argument, ctypes._SimpleCData):
            return [argument]
        if isinstance(argument, Optional):
            return [self._optional(argument, keep, handles)]
        if argument is None:
            return [None]
        numbers = (ctypes.c_int64 * len(argument))(*argument)
        return [numbers, ctypes.c_int64(len(argument))]

    def _optional(self, optional: Optional, keep: list[Any], handles: list[Any]) -> Any:
        value = optional.value
        if value is None:
            return None
        if optional.is_int32:
            return ctypes.byref(ctypes.c_int32(int(value)))
        (converted,) = self._convert(value, keep, handles)
        keep.append(converted)
        return ctypes.byref(converted)

    def _checked(self, name: str, *arguments: Any) -> None:
        if getattr(self._library, "ptrn_torch_" + name)(*arguments) != 0:
            raise ShimError(name)
