"""`pteron.export` of operators that others refuse, on default options."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import pteron
import pteron.backends.aoti.ops.tests.torchvision_operators  # noqa: F401
from pteron.exir.operators.library_operators import (
    any_number_of_kept_boxes,
    library_decompositions,
)

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


def test_nms_is_described_again_where_cpp_names_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch lets only that module describe an operator, with torchvision 0.28 and earlier."""
    pystub = torch._C._dispatch_pystub

    def of_cpp(name: str, overload: str) -> tuple[str, str] | None:
        is_nms = name == "torchvision::nms"
        return ("torchvision._meta_registrations", "") if is_nms else pystub(name, overload)

    monkeypatch.setattr(vision.nms.default, "_defined_in_python", False)
    monkeypatch.setattr(torch._C, "_dispatch_pystub", of_cpp)
    inputs = (boxes(4), torch.rand(4))
    with any_number_of_kept_boxes():
        exported = torch.export.export(Calls(lambda b, s: vision.nms(b, s, 0.5)), inputs)
    assert "torchvision.nms" in str(exported.graph)


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


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_bytes_are_joined(dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    def join(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        other = b.to(torch.uint8 if b.dtype == torch.int8 else torch.int8)
        return (
            torch.cat([a, b]),
            torch.cat([a[:, 1:].mT, b[:, 1:].mT], -1),
            torch.stack([a, a], 1),
            torch.cat([a, a.new_empty(0), b]).float() / 2,
            torch.cat([b, other]),
        )

    n = {0: Dim("n", min=0, max=9)}
    calls = [
        (torch.randint(0, 120, (rows, 5)).to(dtype), torch.randint(0, 120, (4, 5)).to(dtype))
        for rows in (3, 0, 1, 9)
    ]
    check(tmp_path / "cat.pte", join, (n, None), *calls)


def test_windows(tmp_path: pathlib.Path) -> None:
    windows = (torch.hann_window, torch.hamming_window, torch.blackman_window)

    def apply(x: torch.Tensor) -> list[torch.Tensor]:
        length = x.shape[-1]
        return [
            *(x * window(length) for window in windows),
            *(x * window(length, periodic=False) for window in windows),
            x * torch.bartlett_window(length),
            x * torch.kaiser_window(length, True, 8.0),
        ]

    check(tmp_path / "windows.pte", apply, (None,), (torch.randn(2, 400),))


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_volumes_are_sampled(mode: str, tmp_path: pathlib.Path) -> None:
    def sample(x: torch.Tensor, grid: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.nn.functional.grid_sample(x, grid, mode, padding, align_corners)
            for padding, align_corners in (
                ("zeros", False),
                ("border", True),
                ("reflection", False),
            )
        ]

    n = {0: Dim("n", min=1, max=4)}
    calls = [
        (torch.randn(count, 2, 4, 5, 6), torch.rand(count, 3, 2, 4, 3) * 3 - 1.5)
        for count in (2, 1, 4)
    ]
    check(tmp_path / "volumes.pte", sample, (n, n), *calls)


def test_images_of_bytes_are_resized(tmp_path: pathlib.Path) -> None:
    def resize(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        change = torch.nn.functional.interpolate
        return (
            change(x, size=(9, 7), mode="bilinear", antialias=True),
            change(x, size=(30, 7), mode="bicubic", antialias=True),
        )

    images = torch.randint(0, 256, (3, 3, 20, 15), dtype=torch.uint8)
    last = images[:1].contiguous(memory_format=torch.channels_last)
    check(tmp_path / "bytes.pte", resize, ({0: Dim("n", min=1, max=4)},), (images,), (last,))
