"""Decompositions of other libraries' operators into torch's."""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload


def library_decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions of the operators in `_BY_NAME` that are registered in this process."""
    found = {}
    for name, function in _BY_NAME.items():
        namespace, _, operator = name.partition("::")
        packet = getattr(getattr(torch.ops, namespace), operator, None)
        if packet is not None:
            found[packet.default] = function
    return found


def _grouped_mm(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Grouped matmul: multiplies each row by its group's matrix; group g's rows end at `ends[g]`.

    A reduction that gathers the group's matrix: as many multiplications as a grouped GEMM, also for
    data-dependent group sizes.
    """
    index = torch.arange(rows.shape[0], device=rows.device)
    group = (index[:, None] >= ends[None, :]).sum(1)
    last = weights.shape[0] - 1
    product = (rows[:, :, None] * weights[group.clamp(max=last)]).sum(1)
    return torch.where((group <= last)[:, None], product, torch.zeros_like(product))


_BY_NAME: dict[str, Callable[..., Any]] = {
    # MoE layers of transformers; its own function reads the group sizes with item().
    "transformers::grouped_mm_fallback": _grouped_mm,
}
