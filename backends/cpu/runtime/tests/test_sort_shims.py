"""Sorting, selection of the largest, and scans: shims against torch's operators."""

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import (
    Optional,
    ShimLibrary,
)
from pteron.backends.cpu.runtime.tests.shim_testing import (
    check,
    layouts,
    values,
)

aten = torch.ops.aten


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
