"""Functions whose results hang on where values are rounded, and on what a dtype holds.

found = method.execute((halves(torch.bfloat16), integers()))     # of Decisions()
assert torch.equal(found[i], eager[i])                             # no tolerance
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def _chain(h: torch.Tensor) -> torch.Tensor:
    return (h * 1.25 + 0.7) * h - h * 0.3


#: Of float16 and bfloat16: what is decided from values that other operators rounded.
DECISIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "floor": lambda h: torch.floor(h * 3),
    "round": lambda h: torch.round(_chain(h) * 3),
    "trunc": lambda h: (h * 3.3).trunc(),
    "frac": lambda h: (h * 3.3).frac(),
    "sign_of_a_difference": lambda h: torch.sign(h * 1.1 - h - h * 0.1),
    "comparisons": lambda h: (_chain(h) > 1.5, _chain(h) == _chain(h).floor(), (h * 3).ge(h + 1)),
    "comparison_with_a_mean": lambda h: h * 1.1 > h * 1.1 * h,
    "to_integers": lambda h: ((h * 7.3).to(torch.int32), (h * 100).long(), (h * 0.01).bool()),
    "to_float": lambda h: (h * 1.1).float() * 3,
    "through_float16": lambda h: h.float().mul(3.3).to(torch.float16).float(),
    "through_bfloat16": lambda h: h.float().mul(3.3).to(torch.bfloat16).double(),
    "through_both": lambda h: (h.float() * 70000).half().bfloat16(),
    "overflow": lambda h: (h.half() * 30000 * 30000).isinf(),
    "argmax": lambda h: ((h * 1.01).argmax(-1), _chain(h).max(-1).indices),
    "sorted": lambda h: torch.sort(_chain(h), dim=-1, stable=True),
    "top": lambda h: _chain(h).topk(3).values,
    "quotients": lambda h: (
        torch.div(h, h.roll(1, 0), rounding_mode="trunc"),
        torch.fmod(h * 3, 0.3),
        torch.remainder(h * 1.7, 0.5),
    ),
    "where": lambda h: torch.where(h * 1.1 > 0.7, h * 1.7, h * 1.9),
    "constants": lambda h: torch.where(h > 0, torch.full_like(h, 0.7), h) * 3,
    "borders": lambda h: F.pad(h * 1.1, (1, 1), value=0.7) * 3,
    "joined": lambda h: torch.cat([h * 1.1, h * 1.3]) * 1.7,
    "gathered": lambda h: (h * 1.1)[torch.arange(5, device=h.device)] * 1.3,
}

#: What sums, products of matrices and other operators gave before it is decided on.
DECISIONS_ON_SUMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "softmax": lambda h: (h.softmax(-1) * 10).round(),
    "layer_norm": lambda h: (F.layer_norm(h, h.shape[-1:]) * 4).round(),
    "silu": lambda h: (F.silu(h) * F.gelu(h) * 4).round(),
    "sum": lambda h: ((h * 1.1).sum(-1) * 3).floor(),
    "mean": lambda h: ((h * 1.1).mean(-1) * 30).floor(),
    "product": lambda h: ((h @ h.t()) * 1.7).floor(),
    "product_and_relu": lambda h: ((h @ h.t()).relu() + 0.3).floor(),
    "gemv": lambda h: ((h[:1][None] @ h.t()[None]) * 1.7).floor(),
}

_DTYPES = (
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


def conversions() -> dict[str, torch.Tensor]:
    """Indices that are converted, and calculated with, in dtypes that do not hold all of them."""
    few, many = torch.arange(200, 1500), torch.arange(40) + 16_777_200
    found = {"bool": few.bool().long() + few.bool()}
    for dtype in _DTYPES:
        name = str(dtype).removeprefix("torch.")
        found |= {
            f"{name}_itself": few.to(dtype),
            f"{name}_to_float": few.to(dtype).float() * 1.5,
            f"{name}_large": many.to(dtype).double(),
            f"{name}_to_long": many.to(dtype).nan_to_num(0, 0, 0).long(),
            f"{name}_sum": (few.to(dtype) + 1).double(),
            f"{name}_square": (few.to(dtype) * few.to(dtype)).double(),
            f"{name}_compared": few.to(dtype) > 100,
            f"{name}_range": torch.arange(0, 120, dtype=dtype) * 3,
        }
    return found


class Decisions(nn.Module):
    """`functions` of one tensor of halves, and `conversions()`: {name: what it gives}."""

    def __init__(self, functions: dict[str, Callable[[torch.Tensor], Any]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, halves: torch.Tensor) -> dict[str, Any]:
        return {name: function(halves) for name, function in self.functions.items()}


class Conversions(nn.Module):
    """`conversions()`, on the device of its input."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.device(x.device):
            return conversions() | {"input": x + 1}


def halves(dtype: torch.dtype) -> torch.Tensor:
    """[48, 41], some of them exact ties."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(48, 41, generator=generator) * 2
    values[0], values[1, :8] = 0.7, torch.arange(8) / 2
    return values.to(dtype)
