"""Operators of other libraries in terms of torch's."""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload


def library_decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions of the operators in `_BY_NAME` that this process has."""
    found = {}
    for name, function in _BY_NAME.items():
        namespace, _, operator = name.partition("::")
        packet = getattr(getattr(torch.ops, namespace), operator, None)
        if packet is not None:
            found[packet.default] = function
    return found


def _grouped_product(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Each row times the matrix of its group; rows of group g go up to ends[g], not included.

    A sum of products that read the group's matrix by its index: as many multiplications as the
    groups take, whatever their sizes, which are known only when the program runs.
    """
    numbers = torch.arange(rows.shape[0], device=rows.device)
    group = (numbers[:, None] >= ends[None, :]).sum(1)
    last = weights.shape[0] - 1
    product = (rows[:, :, None] * weights[group.clamp(max=last)]).sum(1)
    return torch.where((group <= last)[:, None], product, torch.zeros_like(product))


_BY_NAME: dict[str, Callable[..., Any]] = {
    # Experts of transformers; its own function asks for the sizes of groups, a number at a time.
    "transformers::grouped_mm_fallback": _grouped_product,
}
