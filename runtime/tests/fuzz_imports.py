"""Tensors of other libraries, by DLPack and the buffer protocol, whatever they say they are.

Each is taken with the elements that its memory has, or refused; none is kept. Its memory is as long
as sizes and strides say, which is what a library guarantees, and pages around it cannot be read.
"""

import ctypes
import math
import mmap
import random
import sys
from typing import Any

import atheris
import numpy as np

from pteron.runtime import PteronError, Runtime
from pteron.runtime.tests.program_builder import DTYPES, MethodBuilder, build_program

# What a program takes: dtypes with sizes, of which the first input's are upper bounds.
_INPUTS = (
    ("float32", (4, 3)),
    ("float32", (2, 3)),
    ("int64", (3,)),
    ("bfloat16", (2, 2)),
    ("bool", (5,)),
    ("uint8", ()),
)
_REFUSED = (PteronError, TypeError, ValueError, BufferError, OverflowError)

_API = ctypes.pythonapi
_PAGE = mmap.PAGESIZE


def _memory() -> int:
    """The address of a page that can be used, of which neither neighbour can."""
    pages = mmap.mmap(-1, 3 * _PAGE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for address in (begin, begin + 2 * _PAGE):
        if protect(ctypes.c_void_p(address), ctypes.c_size_t(_PAGE), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    _KEPT.append(pages)
    ctypes.memmove(begin + _PAGE, bytes(i % 2 for i in range(_PAGE)), _PAGE)
    return begin + _PAGE


_KEPT: list[Any] = []
_BEGIN = _memory()
_END = _BEGIN + _PAGE


class _DlTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _DlTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DlTensor),
    )


class _Buffer(ctypes.Structure):  # Py_buffer
    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_new_capsule = _API.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_new_view = _API.PyMemoryView_FromBuffer
_new_view.restype = ctypes.py_object
_new_view.argtypes = [ctypes.c_void_p]


class _Choices:
    """What the fuzzer decides, byte by byte; zeros after the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def one_of(self, values: Any) -> Any:
        return values[self.byte() % len(values)]

    def rarely(self, values: Any, usual: Any) -> Any:
        """One of eight times another value than the usual one."""
        choice = self.byte()
        return values[choice // 8 % len(values)] if choice % 8 == 7 else usual


_SIZES = (0, 1, 2, 3, 4, 5, -1, -2, 7, 1 << 31, 1 << 62, (1 << 63) - 1, -(1 << 63))
_STRIDES = (0, 1, 2, 3, 4, 6, -1, -2, -3, 1 << 31, 1 << 62, (1 << 63) - 1, -(1 << 63))
_DL_CODES = {"float32": (2, 32), "int64": (0, 64), "bfloat16": (4, 16), "bool": (6, 8)}
_FORMATS = (
    *(b"f", b"d", b"e", b"l", b"q", b"i", b"h", b"b", b"B", b"?", b"L", b"Q", b"n", b"c", b"<f"),
    *(b">f", b"!l", b"=q", b"@f", b"Zf", b"Zd", b"Z", b"", b"ff", b"T{f:x:}", b"4f", b"O", b"P"),
    *(b"\xff", b"f" * 300, b"<", b"s", b"w"),
)


def _layout(choices: _Choices, sizes: tuple[int, ...]) -> tuple[list[int], list[int] | None]:
    """Sizes, mostly those that the program takes, and strides in elements; None: contiguous."""
    shape = [choices.rarely(_SIZES, size) for size in sizes]
    if choices.byte() % 16 == 15:
        shape = [
            choices.one_of(_SIZES) for _ in range(choices.one_of((0, 1, 2, 3, 5, 8, 16, 17, 64)))
        ]
    how = choices.byte() % 4
    if how == 0:
        return shape, None
    strides = _contiguous(shape)
    if how == 1:
        strides.reverse()
    return shape, [_wrapped(choices.rarely(_STRIDES, stride)) for stride in strides]


def _wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _contiguous(shape: list[int]) -> list[int]:
    return [math.prod(max(size, 1) for size in shape[d + 1 :]) for d in range(len(shape))]


def _address(shape: list[int], strides: list[int], item: int, at_end: bool) -> int | None:
    """Where a tensor (strides in bytes) touches an end of the memory; None if it does not fit."""
    if any(size <= 0 for size in shape):
        return _END if at_end else _BEGIN  # of which nothing may be read
    steps = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    low, high = sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps) + item
    if high - low > _PAGE:
        return None
    return (_END - high) if at_end else (_BEGIN - low)


def _int64s(values: list[int], kept: list[Any]) -> int | None:
    array = (ctypes.c_int64 * max(len(values), 1))(*values)
    kept.append(array)
    return ctypes.addressof(array)


class _OnlyDlpack:
    """A tensor type that offers nothing but __dlpack__."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._make(arguments)

    def __dlpack_device__(self) -> Any:
        return (1, 0)


def _dlpack(choices: _Choices, dtype: str, sizes: tuple[int, ...], kept: list[Any]) -> Any:
    shape, strides = _layout(choices, sizes)
    code, bits = _DL_CODES.get(dtype, (1, 8))
    tensor = _DlTensor(
        device_type=choices.rarely((0, 2, 3, 13, 7, -1, 1 << 30), 1),
        device_index=choices.rarely((1, -1, 127, 128, 1 << 30), 0),
        ndim=choices.rarely((-1, 65, 1 << 30, -(1 << 31)), len(shape)),
        code=choices.rarely(range(256), code),
        bits=choices.rarely((0, 1, 4, 8, 16, 32, 64, 128, 255), bits),
        lanes=choices.rarely((0, 2, 65535), 1),
        byte_offset=choices.rarely((1, 2, 4, 64, 4096), 0),
    )
    # Fewer dimensions than sizes are fine; more are refused before they are read.
    if 0 <= tensor.ndim <= 64:
        shape, strides = shape[: tensor.ndim], None if strides is None else strides[: tensor.ndim]
    item = max(tensor.bits, 8) // 8
    steps = _contiguous(shape) if strides is None else strides
    place = _address(shape, [step * item for step in steps], item, choices.byte() % 2 == 0)
    if place is None:
        return None
    tensor.data = (place - tensor.byte_offset) % (1 << 64)
    tensor.shape = _int64s(shape, kept)
    tensor.strides = None if strides is None else _int64s(strides, kept)
    names = (b"dltensor", b"used_dltensor", b"used_dltensor_versioned", b"", b"x")
    managed: Any
    if choices.byte() % 2:
        managed = _Versioned(
            major=choices.rarely((0, 2, 1 << 31), 1),
            minor=choices.rarely((0, 9, 1 << 31), 1),
            flags=choices.rarely((1, 2, 3, (1 << 64) - 1), 0),
            tensor=tensor,
        )
        name = choices.rarely(names[1:], b"dltensor_versioned")
    else:
        managed = _Managed(tensor=tensor)
        name = choices.rarely(names[1:], b"dltensor")
    kept += [managed, name]
    capsule = _new_capsule(ctypes.addressof(managed), name, None)
    how = choices.byte()

    def make(arguments: Any) -> Any:
        if how % 16 == 15:
            raise choices.one_of((BufferError, TypeError, RuntimeError, KeyError))("as told")
        if how % 16 == 14:
            return choices.one_of((None, 5, "dltensor", b"", object()))
        if how % 16 == 13 and arguments:
            raise TypeError("from before DLPack 1.0")
        return capsule

    return _OnlyDlpack(make), (shape, [step * item for step in steps], place, item)


def _buffer(choices: _Choices, dtype: str, sizes: tuple[int, ...], kept: list[Any]) -> Any:
    shape, strides = _layout(choices, sizes)
    if any(size < 0 for size in shape) or len(shape) > 64:  # which memoryview itself refuses
        return None
    formats = {"float32": b"f", "int64": b"l", "bool": b"?"}
    item = choices.rarely((0, 1, 2, 3, 4, 8, 16, 17, 1 << 40), DTYPES[dtype][1])
    steps = [
        _wrapped(step * item + choices.rarely((1, -1, 2), 0))
        for step in (_contiguous(shape) if strides is None else strides)
    ]
    numel = math.prod(shape)
    place = _address(shape, steps, max(item, 1), choices.byte() % 2 == 0)
    if place is None or numel * item > _PAGE:
        return None
    buffer = _Buffer(
        buf=place,
        len=numel * item,
        itemsize=item,
        readonly=choices.byte() % 2,
        ndim=len(shape),
        format=choices.rarely(_FORMATS, formats.get(dtype, b"B")),
        shape=_int64s(shape, kept),
        strides=_int64s(steps, kept),
        suboffsets=choices.rarely((_int64s([-1] * 64, kept), _int64s([0] * 64, kept)), None),
    )
    kept.append(buffer)
    return _new_view(ctypes.addressof(buffer)), (shape, steps, place, item)


class _CustomDtype:
    """An array of a dtype that the buffer protocol does not have, as those of ml_dtypes."""

    class _Dtype:
        def __init__(self, name: Any) -> None:
            self.name = name

    def __init__(self, name: Any, view: Any) -> None:
        self.dtype = self._Dtype(name)
        self._view = view

    def view(self, kind: str) -> Any:
        return self._view


def _custom(choices: _Choices, dtype: str, sizes: tuple[int, ...], kept: list[Any]) -> Any:
    made = _buffer(choices, dtype, sizes, kept)
    if made is None:
        return None
    name = choices.rarely(("float8_e5m2", "float8_e4m3fn", "", 5, None, "\ud800"), "bfloat16")
    view = choices.rarely((None, 5, b"", b"12345678"), made[0])
    return _CustomDtype(name, view), None


def _array(choices: _Choices, dtype: str, sizes: tuple[int, ...], kept: list[Any]) -> Any:
    """NumPy's own, of dtypes and layouts that it can make."""
    names = "f4 >f4 i8 ? u1 f2 c8 M8[s] V4 S3 U2 O f4,i4 f16".split()
    array = np.zeros(
        tuple(choices.rarely((0, 1, 2, 7), size) for size in sizes), choices.one_of(names)
    )
    if array.dtype.hasobject:
        return array, None
    for _ in range(choices.byte() % 3):
        array = choices.one_of(
            (array.T, array[::-1] if array.ndim else array, array[..., None], array[None])
        )
    return array, None


_MAKERS = (_dlpack, _dlpack, _buffer, _buffer, _custom, _array)


def _program() -> Any:
    method = MethodBuilder()
    for index, (dtype, sizes) in enumerate(_INPUTS):
        x = method.input(sizes, dtype, bounded=index == 0)
        y = method.planned(sizes, dtype, bounded=index == 0)
        method.clone(x, y)
        method.output(y)
    return Runtime.get().load_program(build_program(method)).load_method("forward")


_METHOD = _program()
_USUAL = [np.ones(sizes, np.uint16 if dtype == "bfloat16" else dtype) for dtype, sizes in _INPUTS]
_USUAL[3] = _CustomDtype("bfloat16", _USUAL[3])  # type: ignore[call-overload]


def _bytes_at(shape: list[int], strides: list[int], place: int, item: int) -> bytes:
    """The elements of a tensor in memory, row-major; strides in bytes."""
    found = []
    for index in np.ndindex(*shape):
        offset = sum(i * stride for i, stride in zip(index, strides, strict=True))
        found.append(ctypes.string_at(place + offset, item))
    return b"".join(found)


taken = refused = 0


def test_one_input(data: bytes) -> None:
    global taken, refused
    choices = _Choices(data)
    which = choices.byte() % len(_INPUTS)
    kept: list[Any] = []
    made = choices.one_of(_MAKERS)(choices, *_INPUTS[which], kept)
    if made is None:
        return
    given, about = made
    references = sys.getrefcount(given)
    inputs = [*_USUAL[:which], given, *_USUAL[which + 1 :]]
    try:
        outputs = _METHOD.execute(inputs)
    except (*_REFUSED, RuntimeError, KeyError):
        refused += 1
    else:
        taken += 1
        if about is not None:
            found, expected = outputs[which].tobytes(), _bytes_at(*about)
            assert found == expected, (found, expected)
        del outputs
    del inputs
    assert sys.getrefcount(given) == references, "an input is kept"


if __name__ == "__main__":
    _METHOD.execute(_USUAL)

    def draw(data: bytes, max_size: int, seed: int) -> bytes:
        """Another input: compiled code reports no coverage to Python."""
        return random.Random(seed).randbytes(min(48, max_size))

    atheris.Setup(sys.argv, test_one_input, custom_mutator=draw)
    atheris.Fuzz()
