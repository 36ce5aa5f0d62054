"""Writes at an index that the model computes, `buffer[position] = x`, as ring buffers do."""

from types import EllipsisType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from pteron.exporter.modules import storage_of


class IndexedWrites(TorchFunctionMode):
    """Inside, an integer tensor without dimensions may be the one tensor of an index that is
    written; torch.export refuses it, since it makes a number of it.

    For torch.export with strict=False.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.__setitem__ and _write(*args):
            return None
        return func(*args, **(kwargs or {}))


def _write(x: torch.Tensor, index: Any, value: Any) -> bool:
    """Does it, if it is such a write; whether it is."""
    entries = index if isinstance(index, tuple) else (index,)
    places = [i for i, entry in enumerate(entries) if isinstance(entry, torch.Tensor)]
    simple = (int, torch.SymInt, slice, EllipsisType, torch.Tensor)
    if len(places) != 1 or any(
        isinstance(entry, bool) or not isinstance(entry, simple) for entry in entries
    ):
        return False
    if not isinstance(value, bool | int | float | complex | torch.Tensor):
        return False  # a size, which torch.tensor() would make constant
    place = places[0]
    number = entries[place]
    if number.dim() or number.dtype in (torch.bool, torch.uint8) or number.is_floating_point():
        return False
    before, after = entries[:place], entries[place + 1 :]
    rows = x[(*before, slice(None), *after)]
    if Ellipsis in before:
        dim = rows.dim() - 1 - sum(isinstance(entry, slice) for entry in after)
    else:
        dim = sum(isinstance(entry, slice) for entry in before)
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=x.dtype, device=x.device)
    if storage_of(value) == storage_of(x):  # x[i] += y
        value = value.clone()
    while value.dim() >= rows.dim() and value.shape[0] == 1:
        value = value[0]
    indices = [*[None] * dim, number.to(torch.int64)]
    torch.ops.aten.index_put_(rows, indices, value.to(x.device, x.dtype))
    return True
