"""Windows are cut to their input, and what is computed stays the same."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from pteron.backends.aoti.passes.clamp_windows import ClampWindowsPass

_Pool = Callable[[torch.Tensor], torch.Tensor | tuple[torch.Tensor, ...]]


class Pools(torch.nn.Module):
    def __init__(self, pool: _Pool) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        return self.pool(x)


_LARGE: dict[str, tuple[_Pool, list[int]]] = {
    "avg": (lambda x: F.avg_pool2d(x, 1280, ceil_mode=True), [7, 5]),
    "avg_one_side": (lambda x: F.avg_pool2d(x, (99, 2), ceil_mode=True), [7, 2]),
    "avg_padded": (lambda x: F.avg_pool2d(x, 40, 50, padding=3, ceil_mode=True), [13, 11]),
    "avg_padding_left_out": (
        lambda x: F.avg_pool2d(x, 40, 50, 3, ceil_mode=True, count_include_pad=False),
        [13, 11],
    ),
    "avg_divisor": (lambda x: F.avg_pool2d(x, 40, ceil_mode=True, divisor_override=3), [7, 5]),
    "max": (lambda x: F.max_pool2d(x, 60, ceil_mode=True), [7, 5]),
    "max_indices": (lambda x: F.max_pool2d(x, 60, 64, ceil_mode=True, return_indices=True), [7, 5]),
    "max_dilated": (lambda x: F.max_pool2d(x, 9, 30, 1, dilation=3, ceil_mode=True), [4, 3]),
    "avg_1d": (lambda x: F.avg_pool1d(x[0], 50, ceil_mode=True), [1, 5]),
}


@pytest.mark.parametrize("name", _LARGE)
def test_large_windows(name: str) -> None:
    pool, window = _LARGE[name]
    x = torch.randn(2, 3, 7, 5)
    program = torch.export.export(Pools(pool), (x,)).run_decompositions()
    assert ClampWindowsPass()(program.graph_module).modified
    (node,) = [n for n in program.graph.nodes if "pool" in str(n.target)]
    assert node.args[1] == window
    found, expected = program.module()(x), pool(x)
    for a, b in zip(_tuple(found), _tuple(expected), strict=True):
        torch.testing.assert_close(a, b)
    assert not ClampWindowsPass()(program.graph_module).modified


def _tuple(value: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def test_windows_that_fit_are_left_alone() -> None:
    pool = Pools(lambda x: F.avg_pool2d(x, (7, 3), 1, padding=1))
    program = torch.export.export(pool, (torch.randn(2, 3, 7, 5),)).run_decompositions()
    assert not ClampWindowsPass()(program.graph_module).modified


def test_sizes_that_are_not_known_are_left_alone() -> None:
    pool = Pools(lambda x: F.avg_pool2d(x, (70, 3), 1, padding=1))
    sizes = {2: torch.export.Dim("rows", min=69, max=99)}
    program = torch.export.export(
        pool, (torch.randn(2, 3, 80, 5),), dynamic_shapes=(sizes,)
    ).run_decompositions()
    assert not ClampWindowsPass()(program.graph_module).modified
