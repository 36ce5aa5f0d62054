"""Calls the shims of a native library on float32 tensors, as a compiled model would.

    shims = ShimLibrary("libcpu_backend.so")
    with shims.prepared("cpu_convolution", x, weight, Optional(bias), [1, 1], ...) as call:
        y = call.result()

Arguments are converted by their type: a tensor to a handle, `Optional(x)` to a pointer to one, a
list of integers to a pointer and a length, an int to int64, a bool to int32. The result is the last
argument, a pointer to a handle.
"""

import contextlib
import ctypes
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

_FLOAT32 = 6  # of the C ABI


class ShimError(Exception):
    """A shim returned a failure."""


@dataclasses.dataclass(frozen=True)
class Optional:
    """An optional argument, which the C ABI passes by pointer."""

    value: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A call whose arguments are converted already.

    Attributes:
        run: calls, without a look at the status, and deletes the result: for measurements.
        result: calls and returns a copy of the result, with its strides.
    """

    run: Callable[[], None]
    result: Callable[[], torch.Tensor]


class ShimLibrary:
    """The shims of one opened library."""

    def __init__(self, path: str):
        self._library = ctypes.CDLL(path)

    @contextlib.contextmanager
    def prepared(self, name: str, *arguments: Any) -> Iterator[Prepared]:
        """A call of `ptrn_torch_<name>`, whose tensors must stay alive."""
        handles: list[ctypes.c_void_p] = []
        converted = [c for argument in arguments for c in self._convert(argument, handles)]
        function, delete = (
            getattr(self._library, f"ptrn_torch_{n}") for n in (name, "delete_tensor_object")
        )
        output = ctypes.c_void_p()
        pointer = ctypes.byref(output)

        def run() -> None:
            function(*converted, pointer)
            delete(output)

        def result() -> torch.Tensor:
            self._checked(name, *converted, pointer)
            try:
                return self._copied(output)
            finally:
                delete(output)

        try:
            yield Prepared(run, result)
        finally:
            for handle in handles:
                delete(handle)

    def _convert(self, argument: Any, handles: list[ctypes.c_void_p]) -> list[Any]:
        if isinstance(argument, torch.Tensor):
            handles.append(self._handle(argument))
            return [handles[-1]]
        if isinstance(argument, Optional):
            return [ctypes.byref(*self._convert(argument.value, handles))]
        if isinstance(argument, bool):
            return [ctypes.c_int32(argument)]
        if isinstance(argument, int):
            return [ctypes.c_int64(argument)]
        return [(ctypes.c_int64 * len(argument))(*argument), ctypes.c_int64(len(argument))]

    def _handle(self, tensor: torch.Tensor) -> ctypes.c_void_p:
        """A new handle over the tensor's memory."""
        handle = ctypes.c_void_p()
        array = ctypes.c_int64 * tensor.dim()
        self._checked(
            "create_tensor_from_blob",
            ctypes.c_void_p(tensor.untyped_storage().data_ptr()),
            ctypes.c_int64(tensor.dim()),
            array(*tensor.shape),
            array(*tensor.stride()),
            ctypes.c_int64(tensor.storage_offset()),
            ctypes.c_int32(_FLOAT32),
            ctypes.c_int32(0),
            ctypes.c_int32(-1),
            ctypes.byref(handle),
        )
        return handle

    def _copied(self, handle: ctypes.c_void_p) -> torch.Tensor:
        """A copy of what a handle refers to, with its strides."""

        def get(what: str, value: Any) -> Any:
            self._checked(f"get_{what}", handle, ctypes.byref(value))
            return value

        dim = get("dim", ctypes.c_int64()).value
        sizes, strides = (
            get(what, ctypes.POINTER(ctypes.c_int64)())[:dim] for what in ("sizes", "strides")
        )
        offset = get("storage_offset", ctypes.c_int64()).value
        nbytes = get("storage_size", ctypes.c_int64()).value
        data = get("data_ptr", ctypes.c_void_p()).value or 0
        raw = ctypes.string_at(data - offset * torch.float32.itemsize, nbytes)
        storage = torch.frombuffer(bytearray(raw), dtype=torch.float32)
        return storage.as_strided(sizes, strides, offset)

    def _checked(self, name: str, *arguments: Any) -> None:
        if getattr(self._library, "ptrn_torch_" + name)(*arguments) != 0:
            raise ShimError(name)
