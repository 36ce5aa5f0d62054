"""Importing it makes torchvision's operators available: its own, or references written for tests.

    import pteron.backends.aoti.ops.tests.torchvision_operators

The references are as plain as possible, one box or one bin at a time.
"""

import importlib.util
import math
from collections.abc import Callable

import torch

_SCHEMAS = """
nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,
    SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor
ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,
    SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)
roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,
    SymInt pooled_width) -> (Tensor, Tensor)
ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,
    SymInt pooled_width) -> (Tensor, Tensor)
deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias,
    SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h,
    SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor
"""


def _overlap(a: torch.Tensor, b: torch.Tensor) -> float:
    size = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0)
    both = size.prod()
    return float(both / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - both))


def _nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    kept: list[int] = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        if not any(_overlap(dets[k], dets[i]) > iou_threshold for k in kept):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def _at(image: torch.Tensor, y: float, x: float) -> torch.Tensor:
    """All channels at a point; 0 more than a pixel beside the image."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return image.new_zeros(len(image))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    down, right = min(top + 1, height - 1), min(left + 1, width - 1)
    above = image[:, top, left] * (1 - x + left) + image[:, top, right] * (x - left)
    below = image[:, down, left] * (1 - x + left) + image[:, down, right] * (x - left)
    return above * (1 - y + top) + below * (y - top)


def _average(
    image: torch.Tensor, box: list[float], bins: tuple[int, int], at: tuple[int, int], ratio: int
) -> torch.Tensor:
    (x1, y1, x2, y2), (h, w) = box, at
    size = (y2 - y1) / bins[0], (x2 - x1) / bins[1]
    rows, cols = (ratio if ratio > 0 else math.ceil(length) for length in size)
    points = [
        _at(image, y1 + (h + (i + 0.5) / rows) * size[0], x1 + (w + (j + 0.5) / cols) * size[1])
        for i in range(rows)
        for j in range(cols)
    ]
    return sum(points, image.new_zeros(len(image))) / max(rows * cols, 1)


def _each_bin(
    input: torch.Tensor, rois: torch.Tensor, bins: tuple[int, int], own: bool
) -> tuple[torch.Tensor, torch.Tensor, list[tuple[torch.Tensor, list[float], torch.Tensor]]]:
    """Results to fill, and their parts: channels of an image, the region, its bin; row-major."""
    area = bins[0] * bins[1]
    channels = input.shape[1] // area if own else input.shape[1]
    out = input.new_empty((len(rois), channels, *bins))
    index = torch.full(out.shape, -1, dtype=torch.int32)
    parts = []
    for k, (image, *box) in enumerate(rois.tolist()):
        for at in range(area):
            chosen = range(at, channels * area, area) if own else range(channels)
            bin = (k, slice(None), at // bins[1], at % bins[1])
            if own:
                index[bin] = torch.tensor(chosen, dtype=torch.int32)
            parts.append((input[int(image)][list(chosen)], box, out[bin], index[bin]))
    return out, index, parts  # type: ignore[return-value]


def _roi_align(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
    own: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    bins = (pooled_height, pooled_width)
    out, index, parts = _each_bin(input, rois, bins, own)
    for i, (image, box, bin, _) in enumerate(parts):  # type: ignore[misc]
        x1, y1, x2, y2 = (value * spatial_scale - 0.5 * aligned for value in box)
        if not aligned:
            x2, y2 = max(x2, x1 + 1), max(y2, y1 + 1)
        at = divmod(i % (bins[0] * bins[1]), bins[1])
        bin[:] = _average(image, [x1, y1, x2, y2], bins, at, sampling_ratio)
    return out, index


def _roi_pool(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    own: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    bins = (pooled_height, pooled_width)
    out, index, parts = _each_bin(input, rois, bins, own)
    height, width = (size - own for size in input.shape[2:])
    for i, (image, box, bin, at) in enumerate(parts):  # type: ignore[misc]
        h, w = divmod(i % (bins[0] * bins[1]), bins[1])
        x1, y1, x2, y2 = (
            math.floor(abs(v) + 0.5) * (1 if v > 0 else -1)
            for v in (value * spatial_scale for value in box)
        )
        rows, cols = (max(b - a + 1 - own, 1) for a, b in ((y1, y2), (x1, x2)))

        def span(at: int, size: int, count: int, start: int, most: int) -> tuple[int, int]:
            low, high = at * size // count + start, -(-(at + 1) * size // count) + start
            return min(max(low, 0), most), min(max(high, 0), most)

        (top, bottom), (left, right) = (
            span(h, rows, bins[0], y1, height),
            span(w, cols, bins[1], x1, width),
        )
        part = image[:, top:bottom, left:right].flatten(1)
        bin[:] = 0
        if part.numel() and own:
            bin[:] = part.mean(1)
        elif part.numel():
            bin[:], place = part.max(1)
            at[:] = (place // (right - left) + top) * width + place % (right - left) + left
    return out, index


def _deform_conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    bias: torch.Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> torch.Tensor:
    rows, cols = weight.shape[2:]
    each = input.shape[1] // offset_groups
    batch, _, out_h, out_w = offset.shape
    taps = input.new_zeros((batch, input.shape[1], rows, cols, out_h, out_w))
    padded = torch.nn.functional.pad(input, (1, 1, 1, 1))  # 0 beside the image, smoothly
    for n, g, i, j, y, x in torch.cartesian_prod(
        *map(torch.arange, (batch, offset_groups, rows, cols, out_h, out_w))
    ).tolist():
        tap = (g * rows + i) * cols + j
        dy, dx = offset[n, 2 * tap : 2 * tap + 2, y, x].tolist()
        place = (
            y * stride_h - pad_h + i * dilation_h + dy,
            x * stride_w - pad_w + j * dilation_w + dx,
        )
        value = _at(padded[n, g * each : (g + 1) * each], place[0] + 1, place[1] + 1)
        scale = mask[n, tap, y, x] if use_mask else 1
        taps[n, g * each : (g + 1) * each, i, j, y, x] = value * scale
    split = taps.view(batch, groups, -1, out_h * out_w)
    out = torch.einsum("gok,bgkp->bgop", weight.view(groups, len(weight) // groups, -1), split)
    return out.reshape(batch, -1, out_h, out_w) + bias.view(1, -1, 1, 1)


def _number_of_kept(dets: torch.Tensor, *_: object) -> torch.Tensor:
    return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def _pooled(own: bool) -> Callable[..., torch.Tensor]:
    def shape(
        input: torch.Tensor, rois: torch.Tensor, _: float, height: int, width: int, *more: object
    ) -> torch.Tensor:
        channels = input.shape[1] // (height * width) if own else input.shape[1]
        return input.new_empty((rois.shape[0], channels, height, width))

    return shape


def _pooled_with_index(own: bool) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def shapes(*arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
        out = _pooled(own)(*arguments)
        return out, torch.empty_like(out, dtype=torch.int32)

    return shapes


def _convolved(
    input: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, *_: object
) -> torch.Tensor:
    return input.new_empty((input.shape[0], weight.shape[0], *offset.shape[2:]))


_OPERATORS: dict[str, tuple[Callable[..., object], Callable[..., object]]] = {
    "nms": (_nms, _number_of_kept),
    "roi_align": (lambda *arguments: _roi_align(*arguments)[0], _pooled(False)),
    "ps_roi_align": (
        lambda *arguments: _roi_align(*arguments, True, True),  # type: ignore[call-arg]
        _pooled_with_index(True),
    ),
    "roi_pool": (_roi_pool, _pooled_with_index(False)),
    "ps_roi_pool": (
        lambda *arguments: _roi_pool(*arguments, True),  # type: ignore[call-arg]
        _pooled_with_index(True),
    ),
    "deform_conv2d": (_deform_conv2d, _convolved),
}


def _define() -> torch.library.Library:
    library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS.strip().replace("\n    ", " ").splitlines():
        library.define(schema)
    for name, (compute, shape) in _OPERATORS.items():
        library.impl(name, compute, "CPU")
        torch.library.register_fake(f"torchvision::{name}", shape, lib=library)
    return library


if importlib.util.find_spec("torchvision"):
    import torchvision  # noqa: F401
else:
    _library = _define()
