"""Sorting, selection of the largest, and scans: shims against torch's operators."""

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import (
    Optional,
    ShimError,
    ShimLibrary,
    dtype_number,
)
from pteron.backends.cpu.runtime.tests.shim_testing import (
    FLOATING,
    INTEGERS,
    check,
    check_sums,
    layouts,
    values,
)

aten = torch.ops.aten


def numbers_with_ties(dtype: torch.dtype) -> torch.Tensor:
    x = values(6, 5, 9, dtype=dtype)
    if dtype.is_floating_point:
        x = (x * 2).round() / 2
        x[2, 3, 4] = float("nan")
        x[0, 0, 0] = float("inf")
    return x


@pytest.mark.parametrize("dtype", FLOATING + INTEGERS + [torch.bool], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_stable(shims: ShimLibrary, dtype: torch.dtype, descending: bool) -> None:
    for x in layouts(numbers_with_ties(dtype)):
        for dim in (0, 1, -1):
            expected = aten.sort.stable(x, stable=True, dim=dim, descending=descending)
            stable = Optional(True, is_int32=True)
            actual = shims.call("cpu_sort_stable", x, stable, dim, descending, results=2)
            for found, wanted in zip(actual, expected, strict=True):
                check(found, wanted)
            check(shims.call("cpu_sort", x, dim, descending, results=2)[0], expected[0])


def test_sort_of_a_single_number(shims: ShimLibrary) -> None:
    found, indices = shims.call("cpu_sort", torch.tensor(3.0), 0, False, results=2)
    assert found.item() == 3 and indices.item() == 0 and indices.dim() == 0


@pytest.mark.parametrize("dtype", FLOATING + INTEGERS, ids=str)
@pytest.mark.parametrize("largest", [False, True])
def test_topk(shims: ShimLibrary, dtype: torch.dtype, largest: bool) -> None:
    for x in layouts(numbers_with_ties(dtype)):
        for k, dim in ((1, 0), (4, 2), (5, 1), (0, 1)):
            expected, _ = aten.topk(x, k, dim, largest, True)
            found, indices = shims.call("cpu_topk", x, k, dim, largest, True, results=2)
            check(found, expected)
            check(x.gather(dim, indices).contiguous(), expected)


def test_topk_refuses_too_many(shims: ShimLibrary) -> None:
    with pytest.raises(ShimError):
        shims.call("cpu_topk", values(3, 4), 5, 1, True, True, results=2)


@pytest.mark.parametrize("keepdim", [False, True])
def test_kthvalue(shims: ShimLibrary, keepdim: bool) -> None:
    for x in layouts(numbers_with_ties(torch.float32)):
        for k, dim in ((1, 0), (4, 1), (9, 2)):
            found, indices = shims.call("cpu_kthvalue", x, k, dim, keepdim, results=2)
            expected = aten.kthvalue(x, k, dim, keepdim)[0]
            check(found, expected)
            index = indices if keepdim else indices.unsqueeze(dim)
            check(x.gather(dim, index).reshape(expected.shape), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("int32", [False, True])
def test_bucketize(shims: ShimLibrary, dtype: torch.dtype, right: bool, int32: bool) -> None:
    boundaries = values(9, dtype=dtype).sort().values
    for x in layouts(torch.cat([values(3, 7, dtype=dtype), boundaries[:7].expand(2, 7)])):
        actual = shims.call("cpu_bucketize_Tensor", x, boundaries, int32, right, results=1)
        check(actual, aten.bucketize.Tensor(x, boundaries, out_int32=int32, right=right))


@pytest.mark.parametrize("side", [None, "left", "right"])
def test_searchsorted(shims: ShimLibrary, side: str | None) -> None:
    unsorted = values(4, 9)
    sorter = unsorted.argsort()
    x = values(4, 6)
    x[1, 2] = float("nan")
    cases = [(unsorted.sort().values, None), (unsorted, sorter), (unsorted[0].sort().values, None)]
    for sequence, order in cases:
        actual = shims.call(
            "cpu_searchsorted_Tensor",
            sequence,
            x,
            False,
            False,
            Optional(side),
            Optional(order),
            results=1,
        )
        check(actual, aten.searchsorted.Tensor(sequence, x, side=side, sorter=order))


def test_histc(shims: ShimLibrary) -> None:
    x = values(200)
    for bins, low, high in ((10, -1.0, 1.0), (7, 0.0, 0.0), (1, -3.0, 3.0)):
        check(
            shims.call("cpu_histc", x, bins, low, high, results=1), aten.histc(x, bins, low, high)
        )


@pytest.mark.parametrize("dtype", FLOATING + INTEGERS + [torch.bool], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_cumulative(shims: ShimLibrary, dtype: torch.dtype, name: str) -> None:
    for x in layouts(values(4, 5, 6, dtype=dtype)):
        for dim in (0, 1, -1):
            for out in (None, torch.float32, torch.int64):
                number = Optional(None if out is None else dtype_number(out), is_int32=True)
                actual = shims.call("cpu_" + name, x, dim, number, results=1)
                expected = getattr(aten, name)(x, dim, dtype=out)
                assert actual.dtype == expected.dtype
                if expected.is_floating_point():
                    expected = getattr(aten, name)(x.double(), dim)
                check_sums(actual, expected)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dtype", FLOATING + INTEGERS, ids=str)
def test_cumulative_extremes(shims: ShimLibrary, dtype: torch.dtype, name: str) -> None:
    for x in layouts(numbers_with_ties(dtype)):
        for dim in (0, 2):
            actual = shims.call("cpu_" + name, x, dim, results=2)
            for found, wanted in zip(actual, getattr(aten, name)(x, dim), strict=True):
                check(found, wanted)


def test_logcumsumexp(shims: ShimLibrary) -> None:
    x = values(4, 6) * 100
    x[0, 0] = -float("inf")
    x[1, 2] = float("inf")
    for dim in (0, 1):
        check(shims.call("cpu_logcumsumexp", x, dim, results=1), aten.logcumsumexp(x, dim), 1e-5)
