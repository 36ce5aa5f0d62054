"""Random numbers: shims draw from the distribution of torch's operators."""

import ctypes

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import (
    Optional,
    ShimError,
    ShimLibrary,
    dtype_number,
)
from pteron.backends.cpu.runtime.tests.shim_testing import (
    check,
    poison,
)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32], ids=str)
def test_randint(shims: ShimLibrary, dtype: torch.dtype) -> None:
    out = poison(4000, dtype=dtype)
    shims.call("cpu_randint_low_out", out, -3, 5, [4000])
    counts = torch.bincount((out + 3).long(), minlength=8)
    assert counts.numel() == 8
    assert counts.min() > 350 and counts.max() < 650
    again = out.clone()
    shims.call("cpu_randint_low_out", again, -3, 5, [4000])
    assert not torch.equal(out, again)
    whole = torch.zeros(50, dtype=torch.int64)
    shims.call("cpu_randint_low_out", whole, -(2**63), 2**63 - 1, [50])
    assert (whole < 0).any() and (whole > 0).any()
    with pytest.raises(ShimError):
        shims.call("cpu_randint_low_out", out, 5, 5, [4000])


def test_randperm(shims: ShimLibrary) -> None:
    def draw(n: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        number = Optional(None if dtype is None else dtype_number(dtype), is_int32=True)
        device = ctypes.c_int32(-1)
        return shims.call("cpu_randperm", n, number, None, None, device, None, results=1)

    check(draw(100).sort().values, torch.arange(100))
    check(draw(100, torch.int32).sort().values, torch.arange(100, dtype=torch.int32))
    assert not torch.equal(draw(100), draw(100))
    assert draw(0).numel() == 0
