"""Offsets of tensors in planned memory.

Tensors with disjoint lifetimes may share bytes. `plan_greedy` places tensors by decreasing size,
each in the first slot where it overlaps no live tensor::

    offsets, nbytes = plan_greedy([Lifetime(4096, 0, 1), Lifetime(4096, 2, 3)])   # [0, 0], 4096
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ALIGNMENT = 64
"""Alignment of planned tensors in bytes: a cache line, and the widest vector register."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The size and lifetime of a tensor to plan.

    Attributes:
      nbytes: at its upper bound.
      first: first instruction that uses it.
      last: last instruction that uses it; the number of instructions if it outlives them.
    """

    nbytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, kw_only=True)
class MemoryPlanningPass:
    """Options of memory planning, with ExecuTorch's name.

    Attributes:
      alloc_graph_input: plan memory for inputs, which are then copied before each run. By default a
        method reads inputs in the caller's memory. An input that is also an output is always
        planned, one that the method writes in place never.
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
    """A memory range shared by tensors with disjoint lifetimes."""

    nbytes: int
    occupants: list[tuple[int, Lifetime]] = field(default_factory=list)  # offset in the slot

    def find_offset(self, tensor: Lifetime, nbytes: int) -> int | None:
        """An offset for `tensor` above all simultaneously live tensors, or None."""
        top = max(
            (offset + other.nbytes for offset, other in self.occupants if other.overlaps(tensor)),
            default=0,
        )
        return top if top + nbytes <= self.nbytes else None


def _round_up(value: int, alignment: int) -> int:
    return (value + alignment - 1) // alignment * alignment


def plan_greedy(tensors: Sequence[Lifetime], alignment: int = ALIGNMENT) -> tuple[list[int], int]:
    """Offset of each tensor, and the total bytes. Deterministic.

    Simultaneously live tensors never overlap; empty tensors get an offset too.
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
    """Offsets of tensors that are all live at once, and the total bytes."""
    offsets, end = [], 0
    for size in nbytes:
        offsets.append(end)
        end += _round_up(size, alignment)
    return offsets, end
