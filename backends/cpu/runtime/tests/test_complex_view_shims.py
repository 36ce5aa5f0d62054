"""Fourier transforms: shims against torch's operators."""

import pytest
import torch

from pteron.backends.cpu.runtime.tests.shim_caller import (
    ShimLibrary,
)
from pteron.backends.cpu.runtime.tests.shim_testing import (
    check,
    layouts,
    values,
)

aten = torch.ops.aten


@pytest.mark.parametrize("length", [1, 2, 7, 12, 31, 37, 64, 100, 210, 2 * 101, 1024])
@pytest.mark.parametrize("normalization", [0, 1, 2])
def test_fft_of_one_dimension(shims: ShimLibrary, length: int, normalization: int) -> None:
    x = values(3, length, dtype=torch.float64)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        real = x.to(dtype)
        for onesided in (True, False):
            actual = shims.call("cpu__fft_r2c", real, [1], normalization, onesided, results=1)
            check(actual, aten._fft_r2c(real, [1], normalization, onesided), tolerance)
        number = torch.complex(real, real.flip(0))
        for forward in (True, False):
            actual = shims.call("cpu__fft_c2c", number, [1], normalization, forward, results=1)
            check(actual, aten._fft_c2c(number, [1], normalization, forward), tolerance)


def test_fft_of_several_dimensions(shims: ShimLibrary) -> None:
    for x in layouts(values(4, 5, 6)):
        for dims in ([0], [2], [0, 1], [1, 2], [0, 1, 2], [2, 0]):
            actual = shims.call("cpu__fft_r2c", x, dims, 0, True, results=1)
            check(actual, aten._fft_r2c(x, dims, 0, True), 1e-4)
            z = torch.complex(x, x)
            check(
                shims.call("cpu__fft_c2c", z, dims, 1, True, results=1),
                aten._fft_c2c(z, dims, 1, True),
                1e-4,
            )
