"""Gather, scatter, masks: shims against torch's operators."""

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import (
    Optional,
    ShimError,
    ShimLibrary,
)
from pteron.backends.cpu.runtime.tests.shim_testing import (
    check,
    layouts,
    values,
)

aten = torch.ops.aten


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


def test_repeat_interleave(shims: ShimLibrary) -> None:
    for dtype in (torch.int64, torch.int32):
        repeats = torch.tensor([2, 0, 3, 1], dtype=dtype)
        for size in (None, 6):
            actual = shims.call("cpu_repeat_interleave_Tensor", repeats, Optional(size), results=1)
            check(actual, aten.repeat_interleave.Tensor(repeats))
    with pytest.raises(ShimError):
        shims.call("cpu_repeat_interleave_Tensor", torch.tensor([1, -1]), None, results=1)
