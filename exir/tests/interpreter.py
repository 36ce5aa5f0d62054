"""Runs program files in Python: what the runtime does, slowly and plainly.

Memory is planned memory in earnest: every planned tensor is a view into its pool, and pools are
filled with garbage before each run, so that a value that has a wrong address, or read before it was
written, gives a wrong result. Delegates of `pteron.exir.tests.backends` run the programs that
they were given.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pteron.exir._serialize import schema
from pteron.exir._serialize.program_file import ProgramFile, deserialize_program
from pteron.exir._serialize.tensor_data_file import TensorDataFile
from pteron.exir.graph.scalar_types import scalar_type_by_number, torch_dtype

GARBAGE = 0xD7

DelegateFunction = Callable[[list[Any], list["Slot"]], None]


class Slot:
    """A tensor value: memory for its largest shape, and its shape at the moment."""

    def __init__(self, description: schema.Tensor, memory: memoryview | None) -> None:
        self.description = description
        self.memory = memory
        self.sizes = list(description.sizes)
        self.given: torch.Tensor | None = None

    @property
    def nbytes(self) -> int:
        item = scalar_type_by_number(self.description.scalar_type).nbytes
        return math.prod(self.description.sizes) * item

    def tensor(self) -> torch.Tensor:
        """The value, over its memory."""
        if self.given is not None:
            return self.given
        assert self.memory is not None, "a tensor without memory was read"
        order = self.description.dim_order
        dtype = torch_dtype(self.description.scalar_type)
        sizes = [self.sizes[dim] for dim in order]
        if math.prod(sizes) == 0:
            dense = torch.empty(sizes, dtype=dtype)
        else:
            flat = torch.frombuffer(self.memory, dtype=dtype, count=math.prod(sizes))
            dense = flat.view(sizes)
        return dense.permute([order.index(dim) for dim in range(len(order))])

    def write(self, value: torch.Tensor) -> None:
        """Takes the shape and the bytes of `value`."""
        assert value.dtype == torch_dtype(self.description.scalar_type)
        assert len(value.shape) == len(self.sizes)
        for size, largest in zip(value.shape, self.description.sizes, strict=True):
            assert size <= largest, f"{list(value.shape)} exceeds {self.description.sizes}"
        if self.description.shape_dynamism == schema.ShapeDynamism.STATIC:
            assert list(value.shape) == list(self.description.sizes)
        self.sizes = list(value.shape)
        self.tensor().copy_(value)


class Method:
    """A loaded method. State of one name is shared by all methods of one `state` dict."""

    def __init__(
        self,
        file: ProgramFile,
        method: schema.Method,
        delegates: Callable[[str, bytes, list[schema.CompileSpec]], DelegateFunction],
        state: dict[str, bytearray],
        external: dict[str, memoryview],
    ) -> None:
        self._file = file
        self._method = method
        self._state = state
        self._external = external
        self._pools = [bytearray(size) for size in method.buffer_sizes]
        self._values = [self._load(value.value) for value in method.values]
        self._delegates = [
            delegates(item.id, self._delegate_data(item.processed), item.compile_specs)
            for item in method.delegates
        ]

    def _delegate_data(self, data: schema.DelegateData) -> bytes:
        if data.location == schema.DelegateDataLocation.INLINE:
            return self._file.program.inline_delegate_data[data.index].data
        return bytes(self._file.segments[data.index])

    def _load(self, value: schema.Value) -> Any:
        if not isinstance(value, schema.Tensor):
            return value
        slot = Slot(value, None)
        name = value.extra.fully_qualified_name if value.extra else None
        if value.extra and value.extra.location == schema.TensorLocation.EXTERNAL:
            slot.memory = memoryview(bytearray(self._external[name]))
        elif value.allocation is None:
            if value.data_index:
                slot.memory = memoryview(bytearray(self._file.constant(value, slot.nbytes)))
        elif name is not None:
            if name not in self._state:
                initial = bytes(slot.nbytes)
                if value.data_index:
                    initial = bytes(self._file.constant(value, slot.nbytes))
                self._state[name] = bytearray(initial)
            slot.memory = memoryview(self._state[name])
        else:
            start = value.allocation.offset
            pool = memoryview(self._pools[value.allocation.memory_id])
            assert start + slot.nbytes <= pool.nbytes, "a tensor exceeds its pool"
            slot.memory = pool[start : start + slot.nbytes]
        return slot

    def __call__(self, *inputs: Any) -> list[Any]:
        """Runs the method on flat inputs; returns flat outputs, copied."""
        for pool in self._pools:
            pool[:] = bytes([GARBAGE]) * len(pool)
        assert len(inputs) == len(self._method.inputs)
        for index, given in zip(self._method.inputs, inputs, strict=True):
            slot = self._values[index]
            if not isinstance(slot, Slot):
                assert getattr(slot, "value", None) == given, "scalars must be as exported"
            elif slot.memory is None:
                slot.given, slot.sizes = given, list(given.shape)
            else:
                slot.write(given)
        for instruction in self._method.chains[0].instructions:
            self._run(instruction.call)
        return [self._plain(index, copy=True) for index in self._method.outputs]

    def _plain(self, index: int, copy: bool = False) -> Any:
        value = self._values[index]
        if isinstance(value, Slot):
            return value.tensor().clone() if copy else value.tensor()
        if isinstance(value, schema.Null):
            return None
        if isinstance(value, schema.IntList | schema.TensorList):
            return [self._plain(item) for item in value.items]
        if isinstance(value, schema.OptionalTensorList):
            return [None if item < 0 else self._plain(item) for item in value.items]
        if isinstance(value, schema.DoubleList | schema.BoolList):
            return list(value.items)
        return value.value

    def _run(self, call: schema.InstructionCall) -> None:
        if isinstance(call, schema.DelegateCall):
            slots = [self._values[index] for index in call.args]
            self._delegates[call.delegate_index]([self._plain(index) for index in call.args], slots)
        elif isinstance(call, schema.KernelCall):
            self._run_kernel(self._method.operators[call.operator_index], call.args)
        else:
            raise NotImplementedError(type(call).__name__)

    def _run_kernel(self, operator: schema.Operator, args: list[int]) -> None:
        namespace, name = operator.name.split("::")
        if namespace == "et_copy":
            self._values[args[1]].write(self._plain(args[0]))
        elif namespace == "executorch_prim" or operator.name in (
            "aten::sym_size",
            "aten::_local_scalar_dense",
        ):
            self._values[args[-1]].value = _number(name, [self._plain(a) for a in args[:-1]])
        elif operator.name == "aten::copy_":
            assert args[0] == args[-1]
            self._values[args[0]].write(self._plain(args[1]))
        elif operator.name in ("aten::_assert_scalar", "aten::_assert_async"):
            holds, *said = map(self._plain, args)
            assert holds, "".join(map(str, said))
        else:
            assert operator.name == "aten::clone" and args[2] == args[3]
            self._values[args[2]].write(self._plain(args[0]))


def _number(name: str, args: Sequence[Any]) -> Any:
    import operator

    if name == "sym_size":
        return args[0].shape[args[1]]
    if name == "_local_scalar_dense":
        return args[0].item()
    return getattr(operator, name)(*args)


def load(
    buffer: bytes,
    delegates: Callable[[str, bytes, list[schema.CompileSpec]], DelegateFunction],
    tensor_data: Sequence[TensorDataFile] = (),
) -> dict[str, Method]:
    """Loads every method of a program file into one session."""
    file = deserialize_program(buffer)
    state: dict[str, bytearray] = {}
    external = {key: view for data in tensor_data for key, view in data.named_data.items()}
    return {
        method.name: Method(file, method, delegates, state, external)
        for method in file.program.methods
    }
