"""The tensors of one method, and the memory of each."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from pteron.exir._serialize import schema
from pteron.exir._serialize.blob import Blob
from pteron.exir.emit.devices import CPU, Device
from pteron.exir.graph.scalar_types import scalar_type
from pteron.exir.graph.shape_bounds import ShapeBounds
from pteron.exir.graph.tensor_layout import dim_order_of
from pteron.exir.passes.memory_planning import Lifetime, MemoryPlanningPass, plan_greedy

_DEVICE_ALIGNMENT = 256
"""Alignment of tensors in device memory: that of its allocator."""


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
    """A buffer that the method mutates.

    Attributes:
      tensor: its description; the allocation is filled in once all methods are known.
      fqn: its name in the model.
      nbytes: its size.
      initial: its initial value; None if all zeros.
      device: its device.
    """

    tensor: schema.Tensor
    fqn: str
    nbytes: int
    initial: Blob | None
    device: Device


@dataclass
class _Planned:
    tensor: schema.Tensor
    nbytes: int
    device: Device
    first: int
    last: int


@dataclass
class TensorSlots:
    """Collects planned tensors and their lifetimes while instructions are emitted.

    Attributes:
      state: buffers that the method mutates.
    """

    state: list[StateTensor] = field(default_factory=list)
    _planned: dict[int, _Planned] = field(default_factory=dict)

    def plan(
        self, index: int, tensor: schema.Tensor, nbytes: int, device: Device, first: int
    ) -> None:
        """Adds value `index`, a tensor that needs memory from instruction `first` on."""
        self._planned[index] = _Planned(tensor, nbytes, device, first, first)

    def touch(self, index: int, instruction: int) -> None:
        """Extends the lifetime of value `index`, if planned, to `instruction`."""
        planned = self._planned.get(index)
        if planned is not None:
            planned.last = max(planned.last, instruction)

    def release(self, index: int) -> None:
        """Makes value `index` unplanned: the caller provides its memory."""
        self._planned.pop(index, None)

    def by_device(self) -> dict[Device, list[_Planned]]:
        found: defaultdict[Device, list[_Planned]] = defaultdict(list)
        for planned in self._planned.values():
            found[planned.device].append(planned)
        return found


def allocate(
    methods: Mapping[str, TensorSlots], options: Mapping[str, MemoryPlanningPass]
) -> dict[str, tuple[list[int], list[schema.BufferDevice]]]:
    """Assigns every planned tensor of every method its buffer and offset.

    A method's memory is a list of pools: per device, one for values of a run and, if there is
    state, one for state. Returns each method's pool sizes (with the placeholder at 0) and the
    devices of non-host pools. ValueError if methods disagree about state of one name.
    """
    state_offsets = _plan_state(methods, max(m.alignment for m in options.values()))
    result = {}
    for method, slots in methods.items():
        sizes = [0]
        devices = []
        planned = slots.by_device()
        state_devices = {state.device for state in slots.state}
        for device in sorted({CPU, *planned, *state_devices}):
            alignment = options[method].alignment
            if device != CPU:
                alignment = max(alignment, _DEVICE_ALIGNMENT)
            items = planned.get(device, [])
            if items or device == CPU:
                offsets, nbytes = plan_greedy(
                    [Lifetime(p.nbytes, p.first, p.last) for p in items], alignment
                )
                for item, offset in zip(items, offsets, strict=True):
                    item.tensor.allocation = schema.AllocationInfo.at(len(sizes), offset)
                devices += _pool_device(len(sizes), device)
                sizes.append(nbytes)
            if device in state_devices:
                end = 0
                for state in slots.state:
                    if state.device == device:
                        offset = state_offsets[device, state.fqn]
                        state.tensor.allocation = schema.AllocationInfo.at(len(sizes), offset)
                        end = max(end, offset + state.nbytes)
                devices += _pool_device(len(sizes), device)
                sizes.append(end)
        result[method] = sizes, devices
    return result


def _pool_device(memory_id: int, device: Device) -> list[schema.BufferDevice]:
    if device == CPU:
        return []
    return [schema.BufferDevice(memory_id, device.type, device.index)]


def _plan_state(
    methods: Mapping[str, TensorSlots], alignment: int
) -> dict[tuple[Device, str], int]:
    """Offsets of state. One name is one buffer, with one offset in all methods."""
    users: defaultdict[str, list[tuple[str, StateTensor]]] = defaultdict(list)
    for method, slots in methods.items():
        for state in slots.state:
            users[state.fqn].append((method, state))
    offsets: dict[tuple[Device, str], int] = {}
    ends: defaultdict[Device, int] = defaultdict(int)
    for fqn in sorted(users):
        _check_agreement(fqn, users[fqn])
        state = users[fqn][0][1]
        offsets[state.device, fqn] = ends[state.device]
        step = alignment if state.device == CPU else max(alignment, _DEVICE_ALIGNMENT)
        ends[state.device] += (state.nbytes + step - 1) // step * step
    return offsets


def _check_agreement(fqn: str, users: list[tuple[str, StateTensor]]) -> None:
    first_method, first = users[0]
    for method, state in users[1:]:
        what = None
        if _layout(state) != _layout(first):
            what = "type or shape"
        elif state.initial != first.initial:
            what = "initial value"
        elif state.device != first.device:
            what = "device"
        if what:
            raise ValueError(
                f"state {fqn!r} differs in {what} between methods {first_method!r}"
                f" ({first.tensor.sizes}) and {method!r} ({state.tensor.sizes}). Methods share"
                f" state by its name: if it is one thing, export both methods from one module and"
                f" lower both alike; if not, rename one of the buffers."
            )


def _layout(state: StateTensor) -> tuple[int, list[int], list[int]]:
    return state.tensor.scalar_type, state.tensor.sizes, state.tensor.dim_order
