"""Inputs that a method changes in place: the caller's memory shows it, whatever its layout."""

import array
import ctypes
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pteron.runtime import InvalidArgumentError, Method, PteronError, Runtime
from pteron.runtime.tests.program_builder import MethodBuilder, build_program


def assigning_method(
    sizes: list[int], dtype: str = "float32", dim_order: list[int] | None = None
) -> Method:
    """forward(x, y): x becomes y, and is returned as a copy."""
    method = MethodBuilder()
    x = method.input(sizes, dtype, dim_order=dim_order)
    y = method.input(sizes, dtype, dim_order=dim_order)
    z = method.planned(sizes, dtype, dim_order=dim_order)
    method.kernel("aten::copy_", x, y, method.value(False), x)
    method.clone(x, z)
    method.output(z)
    return Runtime.get().load_program(build_program(method)).load_method("forward")


NEW = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
ASSIGN = assigning_method([2, 3])


def unaligned() -> np.ndarray:
    return np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)


def record_field() -> np.ndarray:
    return np.zeros((2, 3), [("a", "f4"), ("b", "f4")])["b"]


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(2, 3),
        torch.zeros(3, 2).t(),
        torch.zeros(2, 6)[:, ::2],
        torch.zeros(5, 3)[2:4],
        torch.zeros(3, 1, 2).permute(2, 1, 0)[:, 0],
        torch.zeros(20).as_strided((2, 3), (3, 2), 4),
        torch.nn.Parameter(torch.zeros(3, 2)).t(),
        torch.zeros(2, 3, dtype=torch.cfloat).conj().imag,
        torch.zeros(2, 3, dtype=torch.cfloat).real,
        torch._neg_view(torch.zeros(2, 3)),
        torch._neg_view(torch.zeros(3, 2, requires_grad=True)).t(),
        np.zeros((2, 3), np.float32),
        np.zeros((2, 3), np.float32, order="F"),
        np.zeros((2, 3), np.float32)[::-1, ::-1],
        np.zeros((4, 9), np.float32)[3::-2, 1::3],
        unaligned(),
        record_field(),
        memoryview(np.zeros((2, 3), np.float32, order="F")),
        (ctypes.c_float * 3 * 2)(),
    ],
    ids=lambda x: type(x).__name__,
)
def test_the_callers_memory_changes(x: Any) -> None:
    for factor in (1, -2):
        (y,) = ASSIGN.execute([x, NEW * np.float32(factor)])
        found = x.detach().resolve_neg() if isinstance(x, torch.Tensor) else np.asarray(x)
        np.testing.assert_array_equal(np.asarray(found), NEW * factor)
        np.testing.assert_array_equal(np.asarray(torch.as_tensor(y).resolve_neg()), NEW * factor)


def test_only_what_the_tensor_has_changes() -> None:
    whole = torch.zeros(4, 6)
    ASSIGN.execute([whole[1:3, 1::2], torch.from_numpy(NEW)])
    expected = torch.zeros(4, 6)
    expected[1:3, 1::2] = torch.from_numpy(NEW)
    assert torch.equal(whole, expected)


def test_channels_last_and_contiguous_for_each_other() -> None:
    new = torch.randn(2, 3, 4, 5)
    for dim_order in (None, [0, 2, 3, 1]):
        method = assigning_method([2, 3, 4, 5], dim_order=dim_order)
        for x in (
            torch.zeros(2, 3, 4, 5),
            torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
            torch.zeros(2, 4, 5, 6).permute(0, 3, 1, 2)[:, ::2],
        ):
            method.execute([x, new])
            assert torch.equal(x, new)


@pytest.mark.parametrize(
    "x", [torch.zeros(()), torch.zeros(3)[1], np.zeros(()), torch._neg_view(torch.zeros(()))]
)
def test_no_dimensions(x: Any) -> None:
    dtype = "float64" if isinstance(x, np.ndarray) else "float32"
    assigning_method([], dtype).execute([x, np.array(-7, dtype)])
    assert float(x) == -7


def test_random_layouts() -> None:
    rng = random.Random(7)
    for _ in range(100):
        sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
        order = rng.sample(range(len(sizes)), len(sizes))
        steps = [rng.choice([1, 1, 2, -1, -3]) for _ in sizes]
        memory = np.zeros([sizes[d] * abs(steps[d]) for d in order], np.float32)
        x = memory[tuple(slice(None, None, steps[d]) for d in order)].transpose(np.argsort(order))
        assert list(x.shape) == sizes
        new = np.random.default_rng(1).random(sizes, np.float32)
        assigning_method(sizes).execute([x, new])
        np.testing.assert_array_equal(x, new)
        assert np.count_nonzero(memory) == new.size


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(1, 3).expand(2, 3),
        torch.zeros(()).expand(2, 3),
        torch.zeros(5).as_strided((2, 3), (1, 1)),
        torch.zeros(9).as_strided((2, 3), (4, 2)),
        torch._neg_view(torch.zeros(1, 3)).expand(2, 3),
        np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (2, 3), (0, 4)),
    ],
)
def test_elements_in_one_place_are_refused(x: Any) -> None:
    before = np.asarray(torch.as_tensor(x).resolve_neg()).copy()
    with pytest.raises(InvalidArgumentError, match="several of its elements are one place"):
        ASSIGN.execute([x, NEW])
    np.testing.assert_array_equal(np.asarray(torch.as_tensor(x).resolve_neg()), before)


def locked(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    "x",
    [
        locked(np.zeros((2, 3), np.float32)),
        locked(np.zeros((2, 3), np.float32, order="F")),
        np.broadcast_to(np.float32(1), (2, 3)),
        memoryview(locked(np.zeros((3, 2), np.float32)).T),
    ],
)
def test_read_only_memory_is_refused(x: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="read-only"):
        ASSIGN.execute([x, NEW])
    ASSIGN.execute([np.zeros((2, 3), np.float32), x])  # to be read


def test_memory_that_two_inputs_share() -> None:
    x = torch.zeros(4, 6)
    shared = [
        (x[:2, :3], x[:2, :3]),
        (x[:2, :3], x[1:3, 2:5]),
        (x[:2, ::2], x[:2, ::2]),
        (x.t()[:2, 1:], x[:2, :3]),
        (x[:2, :3], x.numpy()[:2, :3]),
        (torch._neg_view(x)[:2, :3], x[:2, :3]),
    ]
    for pair in shared:
        with pytest.raises(InvalidArgumentError, match="shares memory with input 1"):
            ASSIGN.execute(list(pair))
    assert not x.any()
    # Between each other's elements they share nothing.
    x[:2, 1::2] = torch.from_numpy(NEW)
    ASSIGN.execute([x[:2, ::2], x[:2, 1::2]])
    assert torch.equal(x[:2, ::2], torch.from_numpy(NEW))


def test_sizes_are_looked_at_before_elements() -> None:
    x = np.zeros((2, 3), np.float32)
    endless = np.broadcast_to(x[:1, :1], (2**30, 2**29))
    for inputs in ([x, endless], [endless, x]):
        with pytest.raises(InvalidArgumentError, match="dimension 0 is 1073741824"):
            ASSIGN.execute(inputs)


def test_a_failed_run_leaves_what_was_copied_as_it_was() -> None:
    method = MethodBuilder()
    x, y = method.input([2, 3]), method.input([2, 3])
    n, result = method.value(0), method.value(0)
    method.kernel("aten::copy_", x, y, method.value(False), x)
    method.kernel("aten::_local_scalar_dense", method.input([], "int64"), n)
    method.kernel("executorch_prim::floordiv.Scalar", method.value(7), n, result)
    method.output(result)
    loaded = Runtime.get().load_program(build_program(method)).load_method("forward")
    given = torch.zeros(3, 2).t()
    with pytest.raises(PteronError):
        loaded.execute([given, NEW, torch.tensor(0)])
    assert not given.any()
    assert loaded.execute([given, NEW, torch.tensor(2)]) == [3]
    assert torch.equal(given, torch.from_numpy(NEW))


def test_an_input_that_is_only_read_may_be_anything() -> None:
    given = torch._neg_view(torch.from_numpy(NEW))
    for y in (given, given[:1].expand(2, 3), given.t().contiguous().t()):
        (z,) = ASSIGN.execute([torch.zeros(2, 3), y])
        assert torch.equal(z, y.resolve_neg())


class Wrapper(torch.Tensor):
    """A subclass without memory of its own."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Wrapper":
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(func)


def fake(x: torch.Tensor) -> torch.Tensor:
    with torch._subclasses.FakeTensorMode():
        return torch.empty(x.shape)


ODD_TENSORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sparse": torch.Tensor.to_sparse,
    "sparse_csr": torch.Tensor.to_sparse_csr,
    "quantized": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    "meta": lambda x: x.to("meta"),
    "fake": fake,
    "nested": lambda x: torch.nested.nested_tensor([x, x]),
    "uninitialized": lambda x: torch.nn.UninitializedParameter(),
    "wrapper": Wrapper,
    "complex": lambda x: x.to(torch.cfloat).conj(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ODD_TENSORS)
def test_tensors_without_dense_memory_are_refused(kind: str) -> None:
    odd = ODD_TENSORS[kind](torch.from_numpy(NEW))
    for inputs in ([odd, NEW], [np.zeros((2, 3), np.float32), odd]):
        with pytest.raises(InvalidArgumentError) as refused:
            ASSIGN.execute(inputs)
        assert "frame #" not in str(refused.value)


@pytest.mark.filterwarnings("ignore")
def test_a_transform_of_torch_is_refused() -> None:
    x = torch.zeros(2, 3)
    with pytest.raises(InvalidArgumentError, match="vmap"):
        torch.vmap(lambda y: ASSIGN.execute([x, y])[0])(torch.ones(4, 2, 3))


def test_other_kinds_of_tensors_of_torch() -> None:
    class Named(torch.Tensor):
        pass

    x = torch.from_numpy(NEW)
    with torch.inference_mode():
        inference = x.clone()
    for y in (
        torch.nn.Parameter(x),
        x.clone().requires_grad_() * 1,
        x.as_subclass(Named),
        inference,
    ):
        (z,) = ASSIGN.execute([torch.zeros(2, 3), y])
        assert torch.equal(z, x)
    (z,) = ASSIGN.execute([torch.zeros(2, 3), torch._efficientzerotensor((2, 3))])
    assert not z.any()


def buffers(kind: str) -> Any:
    values = [0.0, 1.0, 2.0, 3.0]
    return {
        "ctypes": (ctypes.c_float * 4)(*values),
        "ctypes-view": memoryview((ctypes.c_float * 4)(*values)),
        "array": array.array("f", values),
        "cast": memoryview(array.array("f", values)).cast("B").cast("f"),
        "bytes-cast": memoryview(bytes(array.array("f", values))).cast("f"),
        "reversed": memoryview(array.array("f", values[::-1]))[::-1],
    }[kind]


@pytest.mark.parametrize(
    "kind", ["ctypes", "ctypes-view", "array", "cast", "bytes-cast", "reversed"]
)
def test_buffers(kind: str) -> None:
    (z,) = assigning_method([4]).execute([np.zeros(4, np.float32), buffers(kind)])
    np.testing.assert_array_equal(z, [0, 1, 2, 3])


def test_shared_memory_of_multiprocessing() -> None:
    from multiprocessing.sharedctypes import RawArray

    x = RawArray("f", 4)
    assigning_method([4]).execute([x, np.arange(4, dtype=np.float32)])
    assert list(x) == [0, 1, 2, 3]


def test_numbers_of_ctypes() -> None:
    makers: list[tuple[Any, str]] = [(ctypes.c_int64, "int64"), (ctypes.c_float, "float32")]
    for make, dtype in makers:
        x = make(0)
        assigning_method([], dtype).execute([x, make(5)])
        assert x.value == 5


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_float)]


@pytest.mark.parametrize(
    "y",
    [
        (Pair * 4)(),
        (ctypes.c_longdouble * 4)(),
        (ctypes.c_void_p * 4)(),
        (ctypes.c_char * 4)(),
        (ctypes.c_float.__ctype_be__ * 4)(),
        (ctypes.c_float * 0)(),
        (ctypes.c_float * 4 * 0)(),
        array.array("u", "abcd"),
        np.zeros(4, np.longdouble),
        np.zeros(4, ">f4"),
        np.zeros(4, "M8[s]"),
        np.zeros(4, object),
        np.zeros(4, "S4"),
        np.zeros(4, [("a", "f4")]),
        np.zeros(4, np.complex64),
        np.broadcast_to(np.float32(1), (2**60,)),
        np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (0, 2**60), (4, 4)),
        bytes(4),
        memoryview(bytes(16)),
        ctypes.c_float(1),
    ],
    ids=str,
)
def test_buffers_of_other_things_are_refused(y: Any) -> None:
    method = assigning_method([4])
    for inputs in ([np.zeros(4, np.float32), y], [y, np.zeros(4, np.float32)]):
        with pytest.raises((PteronError, TypeError)):
            method.execute(inputs)


def copying_method(sizes: list[int], planned: bool = True, **bounds: Any) -> Method:
    """forward(x): a copy of x, twice."""
    method = MethodBuilder()
    x = method.input(sizes, **bounds)
    for _ in range(2):
        z = method.planned(sizes, **bounds) if planned else method.tensor(sizes, **bounds)
        method.clone(x, z)
        method.output(z)
    return Runtime.get().load_program(build_program(method)).load_method("forward")


LARGE = np.arange(16384, dtype=np.float32).reshape(128, 128)


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("given", [NEW, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    "make",
    [
        np.zeros_like,
        lambda x: np.zeros(x.shape, x.dtype, order="F"),
        lambda x: np.zeros((2 * x.shape[0], x.shape[1] + 1), x.dtype)[::-2, 1:],
        lambda x: np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape),
        lambda x: torch.zeros(x.shape),
        lambda x: torch.nn.Parameter(torch.zeros(x.shape[::-1])).t(),
        lambda x: memoryview(np.zeros_like(x)),
    ],
)
def test_outputs_are_written_to_the_callers_memory(make: Any, given: Any, planned: bool) -> None:
    method = copying_method(list(given.shape), planned)
    for factor in (1, -2):
        out = make(given)
        for outs in ([None, out], (None, out)):
            if isinstance(out, torch.Tensor):
                out.detach().zero_()
            first, second = method.execute([given * np.float32(factor)], out=outs)
            assert second is out and first is not out
            found = out.detach() if isinstance(out, torch.Tensor) else out
            for each in (first, found):
                np.testing.assert_array_equal(np.asarray(each), given * factor)
        later = method.execute([given])
        np.testing.assert_array_equal(np.asarray(found), given * factor)  # no longer written
        np.testing.assert_array_equal(later[1], given)
    (y,) = copying_one(given).execute([given], out=(out := make(given)))
    assert y is out


def copying_one(given: Any) -> Method:
    method = MethodBuilder()
    x, z = method.input(list(given.shape)), method.planned(list(given.shape))
    method.clone(x, z)
    method.output(z)
    return Runtime.get().load_program(build_program(method)).load_method("forward")


def test_the_callers_memory_is_refused_for_outputs() -> None:
    method = copying_method([2, 3])
    x = NEW.copy()
    read_only = NEW.copy()
    read_only.flags.writeable = False
    both = np.zeros((2, 3), np.float32)
    for out, message in (
        ([None], r"has 2 outputs; found 1 in `out`"),
        ([None, 3], "out 1 .* found a int, expected a tensor or None"),
        ([None, np.zeros((2, 3))], r"out 1 .* is float64\[2, 3\] on cpu, expected float32\[2, 3\]"),
        ([None, np.zeros((3, 2), np.float32)], r"is float32\[3, 2\]"),
        ([read_only, None], "out 0 .* is read-only"),
        ([x, None], "out 0 .* shares memory with input 0"),
        ([both, both], "out 1 .* shares memory with out 0"),
        ([torch.zeros(3).expand(2, 3), None], "several elements in one place"),
        ([torch._neg_view(torch.zeros(2, 3)), None], "negative bit"),
    ):
        with pytest.raises(PteronError, match=message):
            method.execute([x], out=out)
        assert not both.any() and np.array_equal(x, NEW)
    np.testing.assert_array_equal(method.execute([x], out=[both, None])[0], NEW)


def test_dynamic_outputs_in_the_callers_memory() -> None:
    method = copying_method([4, 3], bounded=True)
    out = np.zeros((2, 3), np.float32)
    assert method.execute([NEW], out=[out, None])[0] is out
    np.testing.assert_array_equal(out, NEW)
    with pytest.raises(PteronError, match=r"other sizes than what it computed, float32\[1, 3\]"):
        method.execute([NEW[:1]], out=[out, None])
    np.testing.assert_array_equal(out, NEW)
    with pytest.raises(PteronError, match=r"is float32\[5, 3\] on cpu, expected float32\[<=4, "):
        method.execute([NEW], out=[np.zeros((5, 3), np.float32), None])
