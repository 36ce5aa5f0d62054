"""Gather, scatter, masks: shims against torch's operators."""

import ctypes
from collections.abc import Iterator

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import (
    HandleArray,
    Handles,
    Optional,
    ShimError,
    ShimLibrary,
)
from pteron.backends.cpu.runtime.tests.shim_testing import (
    check,
    check_sums,
    layouts,
    poison,
    values,
)

aten = torch.ops.aten


def index_cases() -> list[tuple[torch.Tensor | None, ...]]:
    i = torch.tensor([0, 2, -1, 1])
    j = torch.tensor([[1], [-2]])
    mask = torch.rand(4, 5) < 0.5
    return [
        (i,),
        (None, i),
        (None, None, i),
        (i, i),
        (j, i),
        (i, None, i),
        (None, i.int(), i),
        (mask,),
        (torch.rand(4) < 0.5, None, i[:1]),
        (torch.rand(4, 5, 6) < 0.2,),
        (torch.zeros(4, dtype=torch.bool),),
        (torch.zeros(0, dtype=torch.int64),),
    ]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.int8, torch.complex128, torch.bool], ids=str
)
def test_index(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for indices in index_cases():
        for x in layouts(values(4, 5, 6, dtype=dtype)):
            actual = shims.call("cpu_index_Tensor", x, Handles(indices), results=1)
            check(actual, aten.index.Tensor(x, indices))


def test_index_out_of_bounds(shims: ShimLibrary) -> None:
    for bad in (
        torch.tensor([4]),
        torch.tensor([-5]),
        torch.ones(3, dtype=torch.bool),
        torch.ones(2),
    ):
        with pytest.raises(ShimError):
            shims.call("cpu_index_Tensor", values(4, 5), Handles([bad]), results=1)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(shims: ShimLibrary, accumulate: bool) -> None:
    for indices in index_cases():
        for x in layouts(values(4, 5, 6)):
            given = torch.tensor(2.5)
            expected = aten.index_put(x, indices, given, accumulate)
            actual = shims.call("cpu_index_put", x, Handles(indices), given, accumulate, results=1)
            check(actual, expected)
    x, indices = values(4, 3), (torch.tensor([1, 1, 2]),)
    given = values(3, 3)
    out = poison(4, 3, dtype=torch.float32)
    handles = HandleArray(indices)
    shims.call(
        "index_put_out", out, x, handles, ctypes.c_uint32(1), given, ctypes.c_bool(accumulate)
    )
    check(out, aten.index_put(x, indices, given, accumulate), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64, torch.bfloat16], ids=str)
def test_nonzero(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for shape in ((3, 4, 5), (7,), (), (0, 3)):
        for x in layouts((values(*shape) > 0).to(dtype)):
            check(shims.call("cpu_nonzero", x, results=1), aten.nonzero(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.complex64], ids=str)
def test_masked(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for mask in (torch.rand(4, 5) < 0.5, torch.rand(5) < 0.5, torch.rand(3, 4, 5) < 0.5):
        for x in layouts(values(4, 5, dtype=dtype)):
            check(shims.call("cpu_masked_select", x, mask, results=1), aten.masked_select(x, mask))
            source = values(70, dtype=dtype)
            target = x.expand(mask.shape) if mask.dim() > 2 else x
            actual = shims.call("cpu_masked_scatter", target, mask, source, results=1)
            check(actual, aten.masked_scatter(target, mask, source).contiguous())


def test_masked_scatter_refuses_a_short_source(shims: ShimLibrary) -> None:
    with pytest.raises(ShimError):
        shims.call(
            "cpu_masked_scatter", values(4), torch.ones(4, dtype=torch.bool), values(3), results=1
        )


def scatter_inputs(
    dtype: torch.dtype,
) -> Iterator[tuple[torch.Tensor, int, torch.Tensor, torch.Tensor]]:
    for dim in (0, 1, -1):
        x = values(4, 5, 6, dtype=dtype)
        index = torch.randint(0, x.shape[dim], (3, 4, 5))
        for source in layouts(values(3, 5, 6, dtype=dtype)):
            yield x, dim, index, source


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16], ids=str)
def test_scatter(shims: ShimLibrary, dtype: torch.dtype) -> None:
    for x, dim, _, _ in scatter_inputs(dtype):
        # Distinct indices: which of several writers wins is not specified.
        d = dim % 3
        index = torch.rand(x.shape).argsort(d)[:3, :4, :5]
        source = values(*index.shape, dtype=dtype)
        for out in layouts(poison(*x.shape, dtype=dtype)):
            shims.call("cpu_scatter_src_out", out, x, dim, index, source)
            check(out.contiguous(), aten.scatter.src(x, dim, index, source))
            shims.call("cpu_scatter_value_out", out, x, dim, index, 3.0)
            check(out.contiguous(), aten.scatter.value(x, dim, index, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16], ids=str)
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [False, True])
def test_scatter_reduce(
    shims: ShimLibrary, dtype: torch.dtype, reduce: str, include_self: bool
) -> None:
    for x, dim, index, source in scatter_inputs(dtype):
        wide = torch.float64 if dtype.is_floating_point else dtype
        expected = aten.scatter_reduce.two(
            x.to(wide), dim, index, source.to(wide), reduce, include_self=include_self
        )
        out = poison(*x.shape, dtype=dtype)
        shims.call("cpu_scatter_reduce_two_out", out, x, dim, index, source, reduce, include_self)
        check_sums(out, expected)
        inplace = x.clone()
        with shims.borrowed(inplace) as self:
            shims.call(
                "cpu_scatter_reduce_two_out", self, self, dim, index, source, reduce, include_self
            )
        check_sums(inplace, expected)


def test_scatter_refuses_what_is_out_of_bounds(shims: ShimLibrary) -> None:
    x, out = values(3, 4), poison(3, 4, dtype=torch.float32)
    for index in (torch.tensor([[3]]), torch.tensor([[-1]]), torch.zeros(1, 5, dtype=torch.int64)):
        with pytest.raises(ShimError):
            shims.call("cpu_scatter_src_out", out, x, 0, index, values(1, 5))
    with pytest.raises(ShimError):
        shims.call(
            "cpu_scatter_reduce_two_out",
            out,
            x,
            0,
            torch.tensor([[0]]),
            values(1, 1),
            "median",
            True,
        )
    assert out.isnan().all()


def test_repeat_interleave(shims: ShimLibrary) -> None:
    for dtype in (torch.int64, torch.int32):
        repeats = torch.tensor([2, 0, 3, 1], dtype=dtype)
        for size in (None, 6):
            actual = shims.call("cpu_repeat_interleave_Tensor", repeats, Optional(size), results=1)
            check(actual, aten.repeat_interleave.Tensor(repeats))
    with pytest.raises(ShimError):
        shims.call("cpu_repeat_interleave_Tensor", torch.tensor([1, -1]), None, results=1)
