"""Sampling of volumes, bilinear layers and windows give what torch's operators give."""

import itertools

import pytest
import torch

from pteron.exir.operators.sampling import sampling

aten = torch.ops.aten
TABLE = sampling()


@pytest.mark.parametrize("mode", [0, 1], ids=["trilinear", "nearest"])
@pytest.mark.parametrize("padding", [0, 1, 2], ids=["zeros", "border", "reflection"])
def test_samples_of_volumes(mode: int, padding: int) -> None:
    sample = aten.grid_sampler_3d.default
    torch.manual_seed(0)
    for dtype, size, align_corners in itertools.product(
        (torch.float32, torch.float64), ((4, 5, 6), (1, 3, 1), (2, 1, 7)), (True, False)
    ):
        volume = torch.randn(2, 3, *size, dtype=dtype)
        grid = torch.rand(2, 3, 4, 5, 3, dtype=dtype) * 5 - 2.5
        grid.view(-1)[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0])
        arguments = (volume, grid, mode, padding, align_corners)
        torch.testing.assert_close(TABLE[sample](*arguments), sample(*arguments), equal_nan=True)


def test_bilinear_layers() -> None:
    inputs = torch.randn(3, 6), torch.randn(4, 6, 5), torch.randn(3, 5)
    for dims in (([1, 3], [0], [1, 2], [2, 3]), ([1, 3], [0], [1, 2], [0])):
        expected = torch._trilinear(*inputs, *dims)
        torch.testing.assert_close(TABLE[aten._trilinear.default](*inputs, *dims), expected)


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows(name: str) -> None:
    packet = getattr(aten, f"{name}_window")
    for length, dtype in itertools.product((0, 1, 2, 3, 7, 16), (None, torch.float64)):
        for overload, arguments in (("default", ()), ("periodic", (True,)), ("periodic", (False,))):
            op = getattr(packet, overload)
            expected = op(length, *arguments, dtype=dtype)
            torch.testing.assert_close(TABLE[op](length, *arguments, dtype=dtype), expected)


def test_parameters_of_windows() -> None:
    for op, parameters in (
        (aten.hamming_window.periodic_alpha, (0.3,)),
        (aten.hamming_window.periodic_alpha_beta, (0.3, 0.6)),
        (aten.kaiser_window.beta, (3.0,)),
    ):
        torch.testing.assert_close(TABLE[op](9, False, *parameters), op(9, False, *parameters))
