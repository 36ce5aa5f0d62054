"""Decompositions of grid_sampler_3d and of the fused layer _trilinear, and of window functions."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

_aten = torch.ops.aten


def sampling() -> dict[OpOverload, Callable[..., Any]]:
    """The decompositions. torch has none, or only in some releases."""
    return {
        _aten.grid_sampler_3d.default: _grid_sampler_3d,
        _aten._trilinear.default: _trilinear,
        **{
            getattr(getattr(_aten, f"{name}_window"), overload): function
            for name, function in _WINDOWS.items()
            for overload in getattr(_aten, f"{name}_window").overloads()
            if not overload.endswith("out")
        },
    }


def _grid_sampler_3d(
    volume: torch.Tensor,
    grid: torch.Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> torch.Tensor:
    """Trilinear (mode 0) or nearest (1); zeros (0), border (1) or reflection (2) beside it."""
    if interpolation_mode not in (0, 1):
        return NotImplemented
    batch, channels, *sizes = volume.shape
    wide = torch.promote_types(volume.dtype, torch.float32)
    places = [
        _place(grid[..., 2 - d].to(wide), sizes[d], padding_mode, align_corners) for d in range(3)
    ]
    elements = volume.to(wide).reshape(batch, channels, -1)
    if interpolation_mode == 1:
        ends = [[(place.round(), torch.ones_like(place))] for place in places]
    else:
        ends = [
            [(a, 1 - (place - a).abs()) for a in (place.floor(), place.floor() + 1)]
            for place in places
        ]
    result: Any = 0
    for corner in itertools.product(*map(_checked, ends, sizes)):
        (z, inside_z, share_z), (y, inside_y, share_y), (x, inside_x, share_x) = corner
        index = (z * sizes[1] + y) * sizes[2] + x
        weight = share_z * share_y * share_x
        picked = elements.gather(2, index.flatten(1)[:, None].expand(-1, channels, -1))
        picked = picked.view(batch, channels, *weight.shape[1:]) * weight[:, None]
        # What is beside the volume is 0 even where the weight is NaN.
        result = result + torch.where((inside_z & inside_y & inside_x)[:, None], picked, 0)
    return result.to(volume.dtype)


def _checked(ends: Any, size: Any) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Of places along a dimension, with their shares: index (0 if outside), if inside, share."""
    checked = []
    for a, share in ends:
        inside = (a >= 0) & (a < size)
        checked.append((torch.where(inside, a, 0).to(torch.int64), inside, share))
    return checked


def _place(x: torch.Tensor, size: Any, padding_mode: int, align_corners: bool) -> torch.Tensor:
    """Coordinates from -1 to 1 as indices along a dimension, with a fraction."""
    x = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
    if padding_mode == 2:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if isinstance(size, int) and span == 0:
            x = torch.zeros_like(x)
        else:
            distance = (x - low).abs()
            extra = distance.fmod(span)
            is_even = (distance / span).floor().fmod(2) == 0
            x = torch.where(is_even, extra + low, span - extra + low)
    if padding_mode in (1, 2):
        x = torch.where(x.isnan(), size - 1, x.clamp(0, size - 1))
    return x


def _trilinear(
    i1: torch.Tensor,
    i2: torch.Tensor,
    i3: torch.Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> torch.Tensor:
    """(i1 * i2 * i3).sum(sumdim), each with dimensions inserted at `expand`, by matmuls."""
    rank = i1.dim() + len(expand1)
    subscripts = [
        [d for d in range(rank) if d not in expand] for expand in (expand1, expand2, expand3)
    ]
    kept = [d for d in range(rank) if d not in sumdim]
    operands = zip((i1, i2, i3), subscripts, strict=True)
    return torch.einsum(*(part for pair in operands for part in pair), kept)


def _window(shape: Callable[..., torch.Tensor], *defaults: float) -> Callable[..., torch.Tensor]:
    """`shape(0, ..., n - 1; n, parameters)`, rounded as by torch; a periodic window is the first
    part of one that is a point longer."""

    def make(length: int, *arguments: Any, **options: Any) -> torch.Tensor:
        periodic = bool(arguments[0]) if arguments else True
        given = arguments[1:]
        dtype = options.get("dtype") or torch.get_default_dtype()
        device = options.get("device")
        if length <= 1:
            return torch.ones(length, dtype=dtype, device=device)
        points = length + periodic
        wide = torch.promote_types(dtype, torch.float32)
        x = torch.arange(points, dtype=wide, device=device)
        return shape(x, points, *given, *defaults[len(given) :])[:length].to(dtype)

    return make


def _hamming(x: torch.Tensor, n: int, alpha: float, beta: float) -> torch.Tensor:
    return (x * (math.pi * 2 / (n - 1))).cos() * -beta + alpha


def _blackman(x: torch.Tensor, n: int) -> torch.Tensor:
    x = x * (math.pi / (n - 1))
    return (x * 4).cos() * 0.08 - (x * 2).cos() * 0.5 + 0.42


def _bartlett(x: torch.Tensor, n: int) -> torch.Tensor:
    up = x * (2 / (n - 1))
    return torch.where(x <= (n - 1) // 2, up, 2 - up)


def _kaiser(x: torch.Tensor, n: int, beta: float) -> torch.Tensor:
    inside = (1 - (x * (2 / (n - 1)) - 1) ** 2).clamp(min=0).sqrt()
    return torch.special.i0(inside * beta) / torch.special.i0(torch.full_like(x, beta))


_WINDOWS: dict[str, Callable[..., torch.Tensor]] = {
    "hann": _window(_hamming, 0.5, 0.5),
    "hamming": _window(_hamming, 0.54, 0.46),
    "blackman": _window(_blackman),
    "bartlett": _window(_bartlett),
    "kaiser": _window(_kaiser, 12.0),
}
