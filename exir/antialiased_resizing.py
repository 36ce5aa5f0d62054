"""Decomposes interpolation with `antialias=True` into separable weighted sums.

    _upsample_bilinear2d_aa(x, [h, w], False)    ==>    (x[..., at] * weights).sum(-1), twice

Each output element is a weighted sum over a window as wide as one output step, or as the filter if
that is wider. Windows are clamped at the border; weights are normalized.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._prims_common import suggest_memory_format


def antialiased_resizing() -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions; calls with dynamic sizes are not decomposed."""
    return {
        torch.ops.aten._upsample_bilinear2d_aa.default: _resizing(_triangle, 2),
        torch.ops.aten._upsample_bicubic2d_aa.default: _resizing(_cubic, 4),
    }


def _triangle(x: torch.Tensor) -> torch.Tensor:
    return (1 - x).clamp(min=0)


def _cubic(x: torch.Tensor) -> torch.Tensor:
    """Keys' filter with a = -0.5, for x >= 0."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * -0.5
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def _resizing(filter: Callable[[torch.Tensor], torch.Tensor], width: int) -> Callable[..., Any]:
    """`filter` maps distances to weights; it is 0 from width / 2 on."""

    def resize(
        image: torch.Tensor,
        size: Sequence[int],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> torch.Tensor:
        before = image.shape[-2:]
        sizes = (*before, *size)
        if not all(isinstance(length, int) for length in sizes) or not image.is_floating_point():
            return NotImplemented
        result = image.to(torch.promote_types(image.dtype, torch.float32))
        for dim, scale in ((-1, scales_w), (-2, scales_h)):
            result = along(result, dim, size[dim], align_corners, scale)
        # Keeps torch's memory format, since views may follow.
        return result.to(image.dtype).contiguous(memory_format=suggest_memory_format(image))

    def along(
        image: torch.Tensor, dim: int, out: int, align_corners: bool, scale: float | None
    ) -> torch.Tensor:
        length = image.shape[dim]
        step = length / out if not scale else 1 / scale
        if align_corners:
            step = (length - 1) / (out - 1) if out > 1 else 0.0
        stretch = max(step, 1.0)
        reach = width / 2 * stretch
        centre = (torch.arange(out, device=image.device, dtype=image.dtype) + 0.5) * step
        begin = (centre - reach + 0.5).to(torch.int64).clamp(min=0)
        end = (centre + reach + 0.5).to(torch.int64).clamp(max=length)
        at = begin[:, None] + torch.arange(math.ceil(reach) * 2 + 1, device=image.device)
        distance = ((at - centre[:, None] + 0.5) * (1 / stretch)).abs()
        weights = torch.where(at < end[:, None], filter(distance), torch.zeros_like(distance))
        weights = weights / weights.sum(1, keepdim=True)
        window = image.movedim(dim, -1)[..., at.clamp(max=length - 1)]
        # Elements outside a window are masked, not multiplied by 0, since they may be infinite.
        inside = torch.where(weights == 0, torch.zeros_like(window), window)
        return (inside * weights).sum(-1).movedim(-1, dim)

    return resize
