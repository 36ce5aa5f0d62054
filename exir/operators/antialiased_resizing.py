"""Decomposes interpolation with `antialias=True` into separable weighted sums.

    _upsample_bilinear2d_aa(x, [h, w], False)    ==>    (x[..., at] * weights).sum(-1), twice

Each output element is a weighted sum over a window as wide as one output step, or as the filter if
that is wider. Windows are clamped at the border; weights are normalized. uint8 images get integer
weights and are rounded after each dimension, as by torch.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch._prims_common import suggest_memory_format

_Filter: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
_Size: TypeAlias = int | torch.SymInt


def antialiased_resizing() -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions.

    With dynamic sizes, calls with align_corners and those of uint8 are not decomposed.
    """
    found = {}
    for mode, filter, width in (
        ("bilinear", _triangle, 2),
        ("bicubic", _cubic, 4),
        ("lanczos", _lanczos, 6),  # since torch 2.14
    ):
        packet = getattr(torch.ops.aten, f"_upsample_{mode}2d_aa", None)
        if packet is not None:
            found[packet.default] = _resizing(filter, width)
    return found


def _triangle(x: torch.Tensor) -> torch.Tensor:
    return (1 - x).clamp(min=0)


def _cubic(x: torch.Tensor) -> torch.Tensor:
    """Keys' filter with a = -0.5, for x >= 0."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * -0.5
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def _lanczos(x: torch.Tensor) -> torch.Tensor:
    """Of three lobes."""
    return torch.where(x < 3, torch.sinc(x) * torch.sinc(x / 3), torch.zeros_like(x))


def _resizing(filter: _Filter, width: int) -> Callable[..., Any]:
    """`filter` maps distances to weights; it is 0 from width / 2 on."""

    def resize(
        image: torch.Tensor,
        size: Sequence[_Size],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> torch.Tensor:
        is_dynamic = not all(isinstance(n, int) for n in (*image.shape[-2:], *size))
        is_rounded = image.dtype == torch.uint8
        if is_dynamic and (is_rounded or align_corners):
            return NotImplemented
        if not is_rounded and not image.is_floating_point():
            return NotImplemented
        result = image
        if not is_rounded:
            result = image.to(torch.promote_types(image.dtype, torch.float32))
        for dim, scale in ((-1, scales_w), (-2, scales_h)):
            window = _window(filter, width, result, dim, size[dim], align_corners, scale)
            result = (_rounded_sum if is_rounded else _sum)(result, dim, *window)
        # Keeps torch's memory format, since views may follow.
        return result.to(image.dtype).contiguous(memory_format=suggest_memory_format(image))

    return resize


def _window(
    filter: _Filter,
    width: int,
    image: torch.Tensor,
    dim: int,
    out: Any,
    align_corners: bool,
    scale: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices along `dim`, [out, taps], and their weights; 0 for those that do not belong to it."""
    length = image.shape[dim]
    dtype = image.dtype if image.is_floating_point() else torch.float64
    # A step as a fraction; a tensor where sizes are dynamic.
    above: Any
    below: Any
    above, below = (length - 1, out - 1) if align_corners else (length, out)
    step: Any
    if scale and not align_corners:
        step, reach = 1 / scale, math.ceil(width / 2 * max(1 / scale, 1))
        stretch: Any = max(step, 1.0)
    elif isinstance(above, int) and isinstance(below, int):
        step = above / below if below else 0.0
        stretch = max(step, 1.0)
        reach = math.ceil(width / 2 * stretch)
    else:
        step = torch.scalar_tensor(above, dtype=dtype, device=image.device) / below
        stretch = step.clamp(min=1)
        reach = torch.sym_max(-(-(width // 2 * above) // below), width // 2)
    centre = (torch.arange(out, device=image.device, dtype=dtype) + 0.5) * step
    begin = (centre - width / 2 * stretch + 0.5).to(torch.int64).clamp(min=0)
    end = (centre + width / 2 * stretch + 0.5).to(torch.int64).clamp(max=length)
    at = begin[:, None] + torch.arange(reach * 2 + 1, device=image.device)
    distance = ((at - centre[:, None] + 0.5) * (1 / stretch)).abs()
    weights = torch.where(at < end[:, None], filter(distance), torch.zeros_like(distance))
    return at.clamp(max=length - 1), weights / weights.sum(1, keepdim=True)


def _sum(image: torch.Tensor, dim: int, at: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    window = image.movedim(dim, -1)[..., at]
    # Elements outside a window are masked, not multiplied by 0, since they may be infinite.
    inside = torch.where(weights == 0, torch.zeros_like(window), window)
    return (inside * weights).sum(-1).movedim(-1, dim)


def _rounded_sum(
    image: torch.Tensor, dim: int, at: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """With weights of 15 bits and a sign: as many fractional bits as the greatest one allows."""
    bits = torch.arange(22, device=image.device)
    precision = ((weights.max() * (2 << bits) + 0.5).to(torch.int64) < 1 << 15).sum()
    scaled = weights * (1 << precision)
    whole = torch.where(scaled < 0, scaled - 0.5, scaled + 0.5).to(torch.int32)
    window = image.movedim(dim, -1)[..., at].to(torch.int32)
    half = (1 << (precision - 1)).to(torch.int32)
    sums = (window * whole).sum(-1, dtype=torch.int32) + half
    return (sums >> precision.to(torch.int32)).clamp(0, 255).to(torch.uint8).movedim(-1, dim)
