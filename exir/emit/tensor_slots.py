"""The tensors of one method, and where each will lie."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import torch

from exir._serialize import schema
from exir._serialize.blob import Blob
from exir.memory_planning import Lifetime, MemoryPlanningPass, plan_greedy
from exir.scalar_types import scalar_type
from exir.shape_bounds import ShapeBounds
from exir.tensor_layout import dim_order_of

__all__ = ["StateTensor", "TensorSlots", "describe_tensor"]

ACTIVATIONS = 1
"""memory_id of planned memory whose contents last for one run."""
STATE = 2
"""memory_id of planned memory whose contents outlive a run."""


def describe_tensor(value: torch.Tensor, what: str, bounds: ShapeBounds) -> schema.Tensor:
    """The file's description of a tensor: dtype, upper bounds of its sizes, order of dimensions."""
    if value.layout is not torch.strided:
        raise TypeError(f"{what} has layout {value.layout}; a program holds strided tensors only")
    dynamic = any(not isinstance(size, int) for size in value.shape)
    return schema.Tensor(
        scalar_type=scalar_type(value.dtype).number,
        sizes=bounds.sizes(value, what),
        dim_order=dim_order_of(value),
        shape_dynamism=(
            schema.ShapeDynamism.DYNAMIC_BOUND if dynamic else schema.ShapeDynamism.STATIC
        ),
    )


def nbytes_of(tensor: schema.Tensor, dtype: torch.dtype) -> int:
    """Bytes at the upper bound of its sizes."""
    count = 1
    for size in tensor.sizes:
        count *= size
    return count * scalar_type(dtype).nbytes


@dataclass
class StateTensor:
    """A buffer that the method changes.

    Attributes:
      tensor: its description; the allocation is filled in once all methods are known.
      fqn: the model's name for it.
      nbytes: its size.
      initial: its value before the first run; None if that is all zeros.
    """

    tensor: schema.Tensor
    fqn: str
    nbytes: int
    initial: Blob | None


@dataclass
class _Planned:
    tensor: schema.Tensor
    nbytes: int
    first: int
    last: int


@dataclass
class TensorSlots:
    """Collects planned tensors and their lifetimes while instructions are emitted.

    Attributes:
      state: buffers that the method changes.
    """

    state: list[StateTensor] = field(default_factory=list)
    _planned: dict[int, _Planned] = field(default_factory=dict)

    def plan(self, index: int, tensor: schema.Tensor, nbytes: int, first: int) -> None:
        """Value ``index`` is a tensor that needs memory from instruction ``first`` on."""
        self._planned[index] = _Planned(tensor, nbytes, first, first)

    def touch(self, index: int, instruction: int) -> None:
        """Value ``index``, if it is planned, is needed until ``instruction``."""
        planned = self._planned.get(index)
        if planned is not None:
            planned.last = max(planned.last, instruction)

    def release(self, index: int) -> None:
        """Value ``index`` is not planned after all: the caller provides its memory."""
        self._planned.pop(index, None)

    def allocate(self, options: MemoryPlanningPass) -> int:
        """Gives every planned tensor its place; returns the bytes that they need together."""
        planned = list(self._planned.values())
        offsets, nbytes = plan_greedy(
            [Lifetime(p.nbytes, p.first, p.last) for p in planned], options.alignment
        )
        for item, offset in zip(planned, offsets, strict=True):
            item.tensor.allocation = schema.AllocationInfo.at(ACTIVATIONS, offset)
        return nbytes


def allocate_state(methods: dict[str, TensorSlots], alignment: int) -> dict[str, int]:
    """Places the state of all methods; returns the bytes that each method's state pool needs.

    State of one name is one thing, so it has one place in all methods. ValueError if two methods
    disagree about what it is.
    """
    users: defaultdict[str, list[tuple[str, StateTensor]]] = defaultdict(list)
    for method, slots in methods.items():
        for state in slots.state:
            users[state.fqn].append((method, state))
    sizes = dict.fromkeys(methods, 0)
    end = 0
    for fqn in sorted(users):
        _check_agreement(fqn, users[fqn])
        nbytes = users[fqn][0][1].nbytes
        for method, state in users[fqn]:
            state.tensor.allocation = schema.AllocationInfo.at(STATE, end)
            sizes[method] = end + nbytes
        end += (nbytes + alignment - 1) // alignment * alignment
    return sizes


def _check_agreement(fqn: str, users: list[tuple[str, StateTensor]]) -> None:
    def layout(state: StateTensor) -> tuple[object, ...]:
        return (state.tensor.scalar_type, *state.tensor.sizes, *state.tensor.dim_order)

    first_method, first = users[0]
    for method, state in users[1:]:
        what = None
        if layout(state) != layout(first):
            what = (
                f"type or shape ({first.tensor.sizes} in {first_method!r},"
                f" {state.tensor.sizes} in {method!r})"
            )
        elif state.initial != first.initial:
            what = f"initial value (in {first_method!r} and {method!r})"
        if what:
            raise ValueError(
                f"state {fqn!r} differs between methods in {what}. Methods share state by its name:"
                f" if it is one thing, export both methods from one module; if not, rename one of"
                f" the buffers."
            )
