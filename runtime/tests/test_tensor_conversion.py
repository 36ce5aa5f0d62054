"""Tensors on their way in and out: libraries, layouts, dtypes and whose memory it is."""

import array
import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from pteron.runtime import InvalidArgumentError, Method, PteronError, Runtime
from pteron.runtime.tests.program_builder import DTYPES, MethodBuilder, build_program, copy_program


def load(data: bytes) -> Method:
    return Runtime.get().load_program(data).load_method("forward")


X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


class OnlyDlpack:
    """A tensor type that offers nothing but __dlpack__."""

    def __init__(self, tensor: Any, legacy: bool = False) -> None:
        self._tensor = tensor
        self._legacy = legacy

    def __dlpack__(self, **arguments: Any) -> Any:
        if self._legacy and arguments:
            raise TypeError("from before DLPack 1.0")
        return self._tensor.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


@pytest.mark.parametrize(
    "make, kind",
    [
        (torch.from_numpy, torch.Tensor),
        (lambda x: torch.nn.Parameter(torch.from_numpy(x.copy())), torch.Tensor),
        (np.array, np.ndarray),
        (lambda x: memoryview(np.array(x)), np.ndarray),
        (lambda x: OnlyDlpack(torch.from_numpy(x)), np.ndarray),
        (lambda x: OnlyDlpack(torch.from_numpy(x), legacy=True), np.ndarray),
        (lambda x: OnlyDlpack(np.array(x)), np.ndarray),
    ],
    ids=["torch", "parameter", "numpy", "memoryview", "dlpack", "legacy-dlpack", "numpy-dlpack"],
)
def test_outputs_come_in_the_library_of_the_input(make: Any, kind: type) -> None:
    (y,) = load(copy_program()).execute([make(X)])
    assert isinstance(y, kind)
    np.testing.assert_array_equal(np.asarray(y), X)


def test_the_first_tensor_decides() -> None:
    method = MethodBuilder()
    x, _, z = method.input([2]), method.input([2]), method.planned([2])
    method.clone(x, z)
    method.output(z)
    loaded = load(build_program(method))
    a, b = torch.tensor([1.0, 2.0]), np.array([3, 4], np.float32)
    assert isinstance(loaded.execute([a, b])[0], torch.Tensor)
    assert isinstance(loaded.execute([b, a])[0], np.ndarray)


def test_without_tensors_among_the_inputs() -> None:
    method = MethodBuilder()
    method.output(method.tensor([3], "int64", buffer_name="zeros"))
    (y,) = load(build_program(method)).execute([])
    assert isinstance(y, torch.Tensor) and y.tolist() == [0, 0, 0]  # torch is loaded here


def test_an_array_of_the_standard_library() -> None:
    (y,) = load(copy_program(sizes=[3])).execute([array.array("f", [-1, 0, 2])])
    assert y.tolist() == [-1, 0, 2]


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize(
    "x",
    [
        torch.from_numpy(X.T.copy()).t(),
        torch.from_numpy(np.repeat(X, 2, axis=1))[:, ::2],
        torch.ones(2, 1).expand(2, 3),
        np.asfortranarray(X),
        X[::-1, ::-1][::-1, ::-1],
        X[::-1],
    ],
    ids=["transposed", "strided", "expanded", "fortran", "reversed-twice", "reversed"],
)
def test_other_layouts_are_copied_once(x: Any, planned: bool) -> None:
    method = load(copy_program(planned=planned))
    for _ in range(2):
        (y,) = method.execute([x])
        np.testing.assert_array_equal(np.asarray(y), np.asarray(x))


def test_unaligned_bytes_are_copied() -> None:
    data = np.zeros(25, np.uint8)
    x = data[1:].view(np.float32).reshape(2, 3)
    x[:] = X
    assert not x.flags.aligned
    (y,) = load(copy_program()).execute([x])
    np.testing.assert_array_equal(y, X)


def test_channels_last() -> None:
    method = load(copy_program(sizes=[2, 3, 4, 5], dim_order=[0, 2, 3, 1]))
    x = torch.randn(2, 3, 4, 5)
    for given in (x, x.to(memory_format=torch.channels_last)):
        (y,) = method.execute([given])
        assert torch.equal(y, x)
        assert y.is_contiguous(memory_format=torch.channels_last)
    (y,) = method.execute([x.numpy()])
    np.testing.assert_array_equal(y, x.numpy())
    assert y.strides == (240, 4, 60, 12)


def test_a_read_only_array() -> None:
    x = X.copy()
    x.flags.writeable = False
    np.testing.assert_array_equal(load(copy_program()).execute([x])[0], X)


def test_a_tensor_that_requires_grad() -> None:
    (y,) = load(copy_program()).execute([torch.from_numpy(X.copy()).requires_grad_()])
    assert torch.equal(y, torch.from_numpy(X)) and not y.requires_grad


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "float8_e4m3fn"])
def test_dtypes_through_torch(dtype: str) -> None:
    x = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, dtype))
    (y,) = load(copy_program(dtype=dtype)).execute([x])
    assert y.dtype == x.dtype and torch.equal(y, x)


@pytest.mark.parametrize("dtype", [n for n in DTYPES if "bfloat" not in n and "float8" not in n])
def test_dtypes_through_numpy(dtype: str) -> None:
    x = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    (y,) = load(copy_program(dtype=dtype)).execute([x])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_bfloat16_without_a_library_for_it() -> None:
    x = torch.from_numpy(X).to(torch.bfloat16)
    (y,) = load(copy_program(dtype="bfloat16")).execute([OnlyDlpack(x)])
    assert (type(y).__name__, y.dtype, y.shape) == ("DlpackArray", "bfloat16", (2, 3))
    assert torch.equal(torch.from_dlpack(y), x)
    assert torch.equal(torch.utils.dlpack.from_dlpack(y.__dlpack__()), x)
    assert y.tobytes() == bytes(x.view(torch.uint8).numpy())


def test_what_a_dlpack_array_gives_away_outlives_it() -> None:
    x = torch.ones(2, 3, dtype=torch.bfloat16)
    (y,) = load(copy_program(dtype="bfloat16")).execute([OnlyDlpack(x)])
    tensor = torch.from_dlpack(y)
    capsule = y.__dlpack__()  # nobody takes this one
    del y, capsule
    gc.collect()
    assert torch.equal(tensor, x)


def test_an_array_whose_view_has_other_elements_is_refused() -> None:
    class Bfloat16Array:
        dtype = type("dtype", (), {"name": "bfloat16"})()

        def view(self, kind: str) -> np.ndarray:
            return np.zeros((2, 3), np.uint8)  # half the bytes

    with pytest.raises(PteronError, match="views itself as uint8, not as uint16"):
        load(copy_program(dtype="bfloat16")).execute([Bfloat16Array()])


def test_a_bfloat16_array_of_numpy_is_seen_by_its_name() -> None:
    class Bfloat16Array:  # what an array of ml_dtypes looks like
        dtype = type("dtype", (), {"name": "bfloat16", "itemsize": 2})()

        def __init__(self, bits: np.ndarray) -> None:
            self._bits = bits

        def view(self, dtype: str) -> np.ndarray:
            return self._bits.view(dtype)

    x = torch.from_numpy(X).to(torch.bfloat16)
    bits = x.view(torch.int16).numpy().view(np.uint16)
    (y,) = load(copy_program(dtype="bfloat16")).execute([Bfloat16Array(bits)])
    assert torch.equal(torch.from_dlpack(y), x)


@pytest.mark.parametrize("planned_output", [True, False])
@pytest.mark.parametrize("library", [torch.from_numpy, np.array])
def test_outputs_own_their_memory(library: Any, planned_output: bool) -> None:
    method = MethodBuilder()
    x = method.input([2, 3])
    y = method.tensor([2, 3], planned=planned_output)
    method.clone(x, y)
    method.output(y)
    loaded = load(build_program(method))
    first = loaded.execute([library(X)])[0]
    second = loaded.execute([library(-X)])[0]
    del loaded
    gc.collect()
    np.testing.assert_array_equal(np.asarray(first), X)
    np.testing.assert_array_equal(np.asarray(second), -X)
    np.asarray(first)[:] = 7
    np.testing.assert_array_equal(np.asarray(second), -X)


@pytest.mark.parametrize("sizes", [[], [0, 3], [1], [1, 2, 1, 3, 1, 1, 2]])
def test_outputs_of_any_rank_as_arrays(sizes: list[int]) -> None:
    x = np.arange(-1, np.prod(sizes, dtype=int) - 1, dtype=np.float32).reshape(sizes)
    (y,) = load(copy_program(sizes=sizes)).execute([x])
    assert type(y) is np.ndarray and y.shape == x.shape and y.dtype == x.dtype
    assert y.flags.writeable and y.flags.c_contiguous and y.flags.aligned
    np.testing.assert_array_equal(y, x)


def test_one_value_as_two_outputs() -> None:
    method = MethodBuilder()
    x = method.input([2])
    y = method.tensor([2])
    method.clone(x, y)
    method.output(y, y, x)
    a, b, c = load(build_program(method)).execute([torch.tensor([-1.0, 2.0])])
    assert a.tolist() == b.tolist() == [-1, 2] and c.tolist() == [-1, 2]
    a.fill_(5)
    assert b.tolist() == [-1, 2]


def test_an_input_as_output_is_a_copy() -> None:
    method = MethodBuilder()
    method.output(method.input([2]))
    x = torch.tensor([1.0, 2.0])
    (y,) = load(build_program(method)).execute([x])
    x.fill_(0)
    assert y.tolist() == [1, 2]


@pytest.mark.parametrize("planned_output", [True, False])
def test_bounded_shapes(planned_output: bool) -> None:
    method = MethodBuilder()
    x = method.input([4, 3], bounded=True)
    y = method.tensor([4, 3], bounded=True, planned=planned_output)
    method.clone(x, y)
    method.output(y)
    loaded = load(build_program(method))
    for rows in (4, 1, 0, 3):
        given = torch.randn(rows, 3)
        (y,) = loaded.execute([given])
        assert torch.equal(y, given)
    with pytest.raises(InvalidArgumentError, match="5"):
        loaded.execute([torch.randn(5, 3)])
    with pytest.raises(InvalidArgumentError):
        loaded.execute([torch.randn(3, 5).t()])  # above the bound, and another layout


class PyBuffer(ctypes.Structure):
    """CPython's Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


@pytest.mark.parametrize(
    "format, itemsize, suboffset",
    [
        (b"\0f", 4, None),  # what is behind the end of the format is nobody's business
        (b"f", 36, None),  # 8 * 36 is 32 in a byte
        (b"f", 4, 0),  # elements are behind pointers
    ],
    ids=["empty-format", "large-elements", "suboffsets"],
)
def test_buffers_that_are_no_tensors(format: bytes, itemsize: int, suboffset: int | None) -> None:
    one = ctypes.c_ssize_t * 1
    memory = ctypes.create_string_buffer(4 * itemsize)
    view = PyBuffer(
        buf=ctypes.addressof(memory),
        len=2 * itemsize,
        itemsize=itemsize,
        ndim=1,
        format=format,
        shape=one(2),
        strides=one(itemsize),
        suboffsets=None if suboffset is None else one(suboffset),
    )
    ctypes.pythonapi.PyMemoryView_FromBuffer.restype = ctypes.py_object
    exporter = ctypes.pythonapi.PyMemoryView_FromBuffer(ctypes.byref(view))
    with pytest.raises(InvalidArgumentError, match="format|found a memoryview"):
        load(copy_program(sizes=[2])).execute([exporter])


def test_inputs_are_released() -> None:
    method = load(copy_program())
    x = torch.from_numpy(X.copy())
    alive = weakref.ref(x)
    method.execute([x])
    del x
    gc.collect()
    assert alive() is None
    buffer = bytearray(24)
    method_of_bytes = load(copy_program(sizes=[24], dtype="uint8"))
    method_of_bytes.execute([buffer])
    buffer.append(0)  # raises BufferError while a view of it exists


def test_a_failed_call_lets_go_too() -> None:
    method = load(copy_program(sizes=[24], dtype="uint8"))
    buffer = bytearray(23)
    with pytest.raises(InvalidArgumentError):
        method.execute([buffer])
    buffer.append(0)


def test_the_list_of_inputs_may_shrink_meanwhile() -> None:
    method = MethodBuilder()
    _, b, c = method.input([2]), method.input([2]), method.planned([2])
    method.clone(b, c)
    method.output(c)
    inputs: list[Any] = []

    class Shrinking(OnlyDlpack):
        def __dlpack__(self, **arguments: Any) -> Any:
            inputs.pop()
            return super().__dlpack__(**arguments)

    inputs += [Shrinking(torch.ones(2)), torch.ones(2)]
    with pytest.raises(InvalidArgumentError):
        load(build_program(method)).execute(inputs)


def test_calling_the_method_while_it_converts_an_input() -> None:
    method = load(copy_program())

    class Calling(OnlyDlpack):
        def __dlpack__(self, **arguments: Any) -> Any:
            method.execute([torch.ones(2, 3)])
            raise AssertionError("not reached")

    with pytest.raises(RuntimeError, match="called the method"):
        method.execute([Calling(torch.ones(2, 3))])
    method.execute([torch.ones(2, 3)])


def test_an_exception_of_the_input_comes_through() -> None:
    class Broken(OnlyDlpack):
        def __dlpack__(self, **arguments: Any) -> Any:
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        load(copy_program()).execute([Broken(None)])


def read_only(library: str) -> Any:
    array = np.array([5, 6], np.uint8)
    array.flags.writeable = False
    return {"bytes": bytes(array), "numpy": array, "dlpack": OnlyDlpack(array)}[library]


@pytest.mark.parametrize("library", ["bytes", "numpy", "dlpack"])
def test_read_only_inputs_are_read_only(library: str) -> None:
    method = MethodBuilder()
    x, y = method.input([2], "uint8"), method.input([2], "uint8")
    method.kernel("aten::copy_", x, y, method.value(False), x)
    method.output(x)
    overwriting = load(build_program(method))
    given, two = read_only(library), np.array([1, 2], np.uint8)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="read-only"):
            overwriting.execute([given, two])
        assert overwriting.execute([two.copy(), given])[0].tolist() == [5, 6]
