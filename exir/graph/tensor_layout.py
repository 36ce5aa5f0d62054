"""Layouts of programs: a dim order over dense memory.

Sizes may be symbols; their hints (the example's sizes) determine the order of strides.
"""

from typing import Any

import torch


def _hint(size: int | torch.SymInt) -> int:
    if isinstance(size, int):
        return size
    hint = size.node.hint
    # A data-dependent size has no hint; any size above 1 orders strides correctly.
    return int(hint) if hint is not None else 2


def _is_dense(sizes: list[int], strides: list[int], order: list[int]) -> bool:
    expected = 1
    for dim in reversed(order):
        if sizes[dim] != 1 and strides[dim] != expected:
            return False
        expected *= max(sizes[dim], 1)
    return True


def _dense_order(tensor: torch.Tensor) -> list[int] | None:
    rank = tensor.dim()
    sizes = [_hint(size) for size in tensor.shape]
    strides = [_hint(stride) for stride in tensor.stride()]
    candidates = [list(range(rank))]
    if rank in (4, 5):
        candidates.append([0, *range(2, rank), 1])  # channels last
    candidates.append(sorted(range(rank), key=lambda dim: -strides[dim]))
    if 0 in sizes:
        return candidates[0]
    return next((order for order in candidates if _is_dense(sizes, strides, order)), None)


def dim_order_of(tensor: torch.Tensor) -> list[int]:
    """Dimensions from outermost to innermost, contiguous if several orders are possible.

    A non-dense tensor (a slice, an expanded view) has the contiguous order: in a program it has its
    own memory.
    """
    return _dense_order(tensor) or list(range(tensor.dim()))


def with_dense_strides(value: Any) -> Any:
    """`value` itself, or a contiguous fake tensor of its shape if its strides are not dense."""
    if not isinstance(value, torch.Tensor) or _dense_order(value) is not None:
        return value
    return value.new_empty(value.shape)
