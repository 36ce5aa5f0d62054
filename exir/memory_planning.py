"""Offsets of tensors in planned memory.

Two tensors may share bytes if no instruction needs both. `plan_greedy` is greedy by size: largest
first, each into the first slot where it fits among those that are live at the same time::

    offsets, nbytes = plan_greedy([Lifetime(4096, 0, 1), Lifetime(4096, 2, 3)])   # [0, 0], 4096
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ALIGNMENT = 64
"""Of every planned tensor, in bytes: a cache line, and the widest vector register."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The size and lifetime of a tensor to plan.

    Attributes:
      nbytes: at its upper bound.
      first: first instruction that touches it.
      last: last instruction that touches it; the number of instructions if it outlives them.
    """

    nbytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, kw_only=True)
class MemoryPlanningPass:
    """Options of memory planning, under the name that ExecuTorch has for them.

    Attributes:
      alloc_graph_input: plan memory for inputs; they are then copied in before each run. By default
        a method reads its inputs where the caller has them. An input that is also an output is
        planned in any case, one that the method writes in place never is.
      alloc_graph_output: plan memory for outputs; otherwise the caller provides it.
      alignment: in bytes, of each tensor.
    """

    alloc_graph_input: bool = False
    alloc_graph_output: bool = True
    alignment: int = ALIGNMENT

    def __post_init__(self) -> None:
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise ValueError(f"alignment must be a power of two, not {self.alignment}")


@dataclass(slots=True)
class _Slot:
    """A piece of memory that several tensors share at different times."""

    nbytes: int
    occupants: list[tuple[int, Lifetime]] = field(default_factory=list)  # offset in the slot

    def find_offset(self, tensor: Lifetime, nbytes: int) -> int | None:
        """An offset where `tensor` fits above all that are live with it, or None."""
        top = max(
            (offset + other.nbytes for offset, other in self.occupants if other.overlaps(tensor)),
            default=0,
        )
        return top if top + nbytes <= self.nbytes else None


def _round_up(value: int, alignment: int) -> int:
    return (value + alignment - 1) // alignment * alignment


def plan_greedy(tensors: Sequence[Lifetime], alignment: int = ALIGNMENT) -> tuple[list[int], int]:
    """Offset of each tensor, and the bytes needed. Equal input gives equal output.

    Tensors that are live at the same time never overlap; one of no bytes gets an offset as well.
    """
    order = sorted(range(len(tensors)), key=lambda index: -tensors[index].nbytes)
    slots: list[_Slot] = []
    assigned: list[tuple[_Slot, int]] = [(_Slot(0), 0)] * len(tensors)
    for index in order:
        tensor = tensors[index]
        nbytes = _round_up(tensor.nbytes, alignment)
        rounded = Lifetime(nbytes, tensor.first, tensor.last)
        choices = [
            (slot, offset)
            for slot in slots
            if (offset := slot.find_offset(rounded, nbytes)) is not None
        ]
        slot, offset = min(choices, key=lambda choice: choice[1] > 0, default=(None, 0))
        if slot is None:
            slot = _Slot(nbytes)
            slots.append(slot)
        slot.occupants.append((offset, rounded))
        assigned[index] = (slot, offset)
    base, bases = 0, {}
    for slot in slots:
        bases[id(slot)] = base
        base += slot.nbytes
    return [bases[id(slot)] + offset for slot, offset in assigned], base


def plan_side_by_side(nbytes: Sequence[int], alignment: int = ALIGNMENT) -> tuple[list[int], int]:
    """Offsets of tensors that are all live at once, and the bytes needed."""
    offsets, end = [], 0
    for size in nbytes:
        offsets.append(end)
        end += _round_up(size, alignment)
    return offsets, end
