"""`pteron.export` of models that call operators of torchvision."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import pteron
import pteron.backends.aoti.ops.conformance.torchvision_operators  # noqa: F401
from pteron.exir.library_operators import library_decompositions

vision = torch.ops.torchvision


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def boxes(count: int) -> torch.Tensor:
    low = torch.rand(count, 2) * 40 - 3
    return torch.cat([low, low + torch.rand(count, 2) * 20], 1)


def regions(count: int) -> torch.Tensor:
    return torch.cat([torch.randint(0, 2, (count, 1)).float(), boxes(count)], 1)


def check(
    path: pathlib.Path, function: Callable[..., Any], shapes: Any, *calls: tuple[torch.Tensor, ...]
) -> None:
    """Exports with the first call's inputs, on default options, and compares all calls."""
    module = Calls(function)
    pteron.export(module, calls[0], path, dynamic_shapes=(shapes,))
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for inputs in calls:
        found = method.execute(list(inputs))
        for a, b in zip(found, torch.utils._pytree.tree_leaves(module(*inputs)), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_any_number_of_boxes_stays(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    n = {0: Dim("n", min=0, max=300)}

    def detect(b: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept = vision.nms(b, s, 0.2)
        return kept, b[kept], s[kept]

    calls = [(boxes(count), torch.rand(count)) for count in (20, 0, 1, 2, 300)]
    same = (boxes(1).repeat(9, 1), torch.ones(9))
    nan = (boxes(9), torch.rand(9))
    nan[0][2] = nan[0][5, 1] = nan[1][4] = float("nan")
    check(tmp_path / "nms.pte", detect, (n, n), *calls, same, nan)


@pytest.mark.parametrize("ratio", [-1, 2])
def test_regions_are_pooled(ratio: int, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)

    def pool(x: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            vision.roi_align(x, r, 0.5, 3, 2, ratio, True),
            vision.roi_align(x, r, 1.0, 2, 2, ratio, False),
            *vision.ps_roi_align(x, r, 0.7, 2, 2, ratio),
            *vision.roi_pool(x, r, 0.7, 2, 3),
            *vision.ps_roi_pool(x, r, 0.7, 2, 2),
        )

    x = torch.randn(2, 4, 9, 12)
    last = x.to(memory_format=torch.channels_last)
    calls = (x, regions(5)), (last, regions(1)), (x, regions(0)), (x.mT.contiguous().mT, regions(9))
    shapes = (None, {0: Dim("k", min=0, max=20)})
    check(tmp_path / "pool.pte", pool, shapes, *calls)


def test_regions_of_half_are_pooled_in_float() -> None:
    op = vision.roi_align.default
    pool = library_decompositions()[op]
    image, rois = torch.randn(1, 2, 40, 40), torch.tensor([[0, 1.3, 2.7, 33.1, 30.9]])
    halves, options = (image.half(), rois.half()), (1.0, 3, 3, 2, True)
    found = pool(*halves, *options)
    assert found.dtype == torch.float16
    assert torch.equal(found, op(halves[0].float(), halves[1].float(), *options).half())
    assert pool(image, rois, *options) is NotImplemented


def test_deformable_convolutions(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)

    def convolve(
        x: torch.Tensor, w: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor, b: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        sizes = (1, 2, 1, 0, 2, 1, 2, 2)
        return (
            vision.deform_conv2d(x, w, offset, mask, b, *sizes, True),
            vision.deform_conv2d(x, w, offset, mask[:, :0], b, *sizes, False),
        )

    n = {0: Dim("n", min=1, max=4)}
    calls = []
    for batch in (2, 1, 4):
        x = torch.randn(batch, 4, 6, 7)
        offset, mask = torch.randn(batch, 24, 4, 3) * 3, torch.rand(batch, 12, 4, 3)
        calls.append((x, torch.randn(6, 2, 3, 2), offset, mask, torch.randn(6)))
    check(tmp_path / "deform.pte", convolve, (n, None, n, n, None), *calls)
