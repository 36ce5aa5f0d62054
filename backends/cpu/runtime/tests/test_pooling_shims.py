"""Pooling: shims against torch's operators."""

from collections.abc import Iterator

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import (
    Optional,
    ShimLibrary,
)
from pteron.backends.cpu.runtime.tests.shim_testing import (
    check,
    values,
)

aten = torch.ops.aten


def images(dims: int, dtype: torch.dtype = torch.float32) -> Iterator[torch.Tensor]:
    shape = (2, 3, 7, 9, 8)[: dims + 2]
    x = values(*shape, dtype=dtype)
    yield x
    yield x[0].contiguous()
    yield x.to(memory_format=torch.channels_last if dims == 2 else torch.channels_last_3d)
    yield x.transpose(-1, -2).contiguous().transpose(-1, -2)


@pytest.mark.parametrize("dims,output", [(2, [3, 4]), (2, [1, 1]), (2, [10, 2]), (3, [2, 3, 4])])
def test_adaptive_avg_pool(shims: ShimLibrary, dims: int, output: list[int]) -> None:
    name = f"_adaptive_avg_pool{dims}d"
    for x in images(dims):
        check(shims.call("cpu_" + name, x, output, results=1), getattr(aten, name)(x, output), 1e-5)


@pytest.mark.parametrize("dims,output", [(2, [3, 4]), (2, [10, 2]), (3, [2, 3, 4])])
def test_adaptive_max_pool(shims: ShimLibrary, dims: int, output: list[int]) -> None:
    name = f"adaptive_max_pool{dims}d"
    for x in images(dims):
        x[..., 1, 2] = float("nan")
        for actual, expected in zip(
            shims.call("cpu_" + name, x, output, results=2),
            getattr(aten, name)(x, output),
            strict=True,
        ):
            check(actual, expected)


POOLS = [
    # kernel, stride, padding, ceil mode
    ([2], [], [0], False),
    ([3], [2], [1], False),
    ([3], [2], [1], True),
    ([4], [3], [2], True),
    ([5], [1], [0], False),
]


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("kernel,stride,padding,ceil", POOLS)
def test_avg_pool(
    shims: ShimLibrary, dims: int, kernel: list, stride: list, padding: list, ceil: bool
) -> None:
    name = f"avg_pool{dims}d"
    for x in images(dims):
        for count_pad in (True, False):
            for divisor in (None, 5):
                arguments = (kernel, stride, padding, ceil, count_pad)
                actual = shims.call("cpu_" + name, x, *arguments, Optional(divisor), results=1)
                check(actual, getattr(aten, name)(x, *arguments, divisor), 1e-5)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("dilation", [[1], [2]])
@pytest.mark.parametrize("kernel,stride,padding,ceil", POOLS[:3])
def test_max_pool_with_indices(
    shims: ShimLibrary,
    dims: int,
    dilation: list,
    kernel: list,
    stride: list,
    padding: list,
    ceil: bool,
) -> None:
    name = f"max_pool{dims}d_with_indices"
    for x in images(dims):
        if dims == 3 and x.dim() == 4:
            continue  # torch answers in two layouts there, real and traced
        x = x.clone()
        x[..., 1, 2] = float("nan")
        arguments = (kernel, stride, padding, dilation, ceil)
        actual = shims.call("cpu_" + name, x, *arguments, results=2)
        for found, wanted in zip(actual, getattr(aten, name)(x, *arguments), strict=True):
            check(found, wanted)
