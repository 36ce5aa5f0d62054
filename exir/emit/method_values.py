"""The values of one method: the index and the device of each node's value.

Tensors that a delegate computes on a device stay there until an instruction reads them on another;
the copy is emitted then, once.
"""

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import Node

from pteron.exir._serialize import schema
from pteron.exir._serialize.blob import Blob
from pteron.exir.emit.devices import CPU, Device, copy_kernel, device_of_users
from pteron.exir.emit.emit_options import EmitOptions
from pteron.exir.emit.instruction_list import InstructionList
from pteron.exir.emit.shared_data import SharedData
from pteron.exir.emit.tensor_slots import StateTensor, TensorSlots, describe_tensor, nbytes_of
from pteron.exir.emit.value_table import ValueTable, literal
from pteron.exir.graph.exported_program import (
    CONSTANT_KINDS,
    constant_tensor,
    flat_outputs,
    input_specs_by_name,
    mutation_targets,
)
from pteron.exir.graph.lowered_backend_module import lowered_modules
from pteron.exir.graph.shape_bounds import ShapeBounds
from pteron.exir.graph.tensor_layout import dim_order_of


def _written_inputs(program: ExportedProgram) -> set[str]:
    """Placeholders that a method mutates, in place by delegates or by a copy at its end."""
    written = {name for _, name in mutation_targets(program)}
    for call, module in lowered_modules(program.graph_module):
        for _, index in module.mutated_inputs:
            argument = call.args[1 + index]
            assert isinstance(argument, Node)
            written.add(argument.name)
    return written


class MethodValues:
    """Assigns indices to the values of a method and collects its planned tensors.

    Attributes:
      table: the values.
      slots: the planned tensors.
      bounds: upper bounds of sizes; missing ones are reported at the end.
    """

    def __init__(
        self,
        method: str,
        program: ExportedProgram,
        instructions: InstructionList,
        shared: SharedData,
        options: EmitOptions,
    ) -> None:
        self.table = ValueTable()
        self.slots = TensorSlots()
        self.bounds = ShapeBounds(program)
        self._method = method
        self._program = program
        self._instructions = instructions
        self._shared = shared
        self._options = options
        self._specs = input_specs_by_name(program)
        self._written = _written_inputs(program)
        self._slot_of: dict[Node, int | list[int]] = {}
        self._tensors: dict[int, torch.Tensor] = {}
        self._device_of_index: dict[int, Device] = {}
        self._copies: dict[tuple[int, Device], int] = {}

    # ---- Where values come from.

    def add_inputs(self) -> list[int]:
        """Assigns indices to the user inputs, in order."""
        inputs = []
        returned = {n for n in flat_outputs(self._program.graph) if isinstance(n, Node)}
        for node in self._program.graph.find_nodes(op="placeholder"):
            spec = self._specs[node.name]
            if spec.kind is not InputKind.USER_INPUT:
                continue
            value = node.meta.get("val")
            if isinstance(spec.arg, ConstantArgument):
                # A scalar that export has specialized on: the runtime checks it.
                index = self.table.add(literal(spec.arg.value, f"input {node.name}"))
            elif isinstance(value, torch.Tensor):
                index = self._add_input(node, value, is_returned=node in returned)
            else:
                index = self.add_result(value, f"input {node.name}")
            self._slot_of[node] = index
            inputs.append(index)
        return inputs

    def _add_input(self, node: Node, value: torch.Tensor, is_returned: bool) -> int:
        on_device = self._options.inputs_on_device.get(self._method, False)
        device = device_of_users(self._program, node) if on_device else CPU
        index = self._add_tensor(value, f"input {node.name}", device)
        # An input that is also an output must be planned for some runtimes; an input that is
        # written must be the caller's memory.
        planned = self._options.memory[self._method].alloc_graph_input or is_returned
        if not planned or node.name in self._written:
            self.slots.release(index)
        return index

    def _add_model_tensor(self, node: Node) -> int:
        """Adds a parameter, buffer or constant of the model on first use."""
        spec = self._specs[node.name]
        if spec.kind not in CONSTANT_KINDS:
            raise TypeError(f"input {node.name} of kind {spec.kind.name} is not supported")
        assert spec.target is not None
        data = constant_tensor(self._program, spec)
        tensor = describe_tensor(data, spec.target, self.bounds)
        # The bytes are in the dim order that the file states.
        blob = Blob(data.detach().permute(dim_order_of(data)))
        device = CPU
        if spec.kind is InputKind.BUFFER and node.name in self._written:
            tensor.extra = schema.ExtraTensorInfo(fully_qualified_name=spec.target)
            initial = blob if data.count_nonzero() else None
            device = device_of_users(self._program, node)
            self.slots.state.append(StateTensor(tensor, spec.target, blob.nbytes, initial, device))
        else:
            self._add_constant_data(node, spec.target, tensor, blob)
        index = self.table.add(tensor)
        self._record_device(index, tensor, node.meta["val"], device)
        return index

    def _add_constant_data(self, node: Node, fqn: str, tensor: schema.Tensor, blob: Blob) -> None:
        tag = self._options.external_constants(node)
        if tag is None:
            tensor.data_index = self._shared.constant_index(blob)
            return
        layout = schema.TensorLayout(tensor.scalar_type, tensor.sizes, tensor.dim_order)
        self._shared.named_data.add_named_data(
            fqn, blob.data, external_tag=tag, tensor_layout=layout, digest=blob.digest
        )
        tensor.extra = schema.ExtraTensorInfo(
            fully_qualified_name=fqn, location=schema.TensorLocation.EXTERNAL
        )

    def _add_tensor(self, value: torch.Tensor, what: str, device: Device) -> int:
        """A tensor in planned memory, alive from the next instruction on."""
        tensor = describe_tensor(value, what, self.bounds)
        index = self.table.add(tensor)
        self._record_device(index, tensor, value, device)
        nbytes = nbytes_of(tensor, value.dtype)
        self.slots.plan(index, tensor, nbytes, device, len(self._instructions))
        return index

    def _record_device(
        self, index: int, tensor: schema.Tensor, value: torch.Tensor, device: Device
    ) -> None:
        """Records the device of a tensor."""
        self._tensors[index] = value
        if device != CPU:
            self._device_of_index[index] = device
            tensor.extra = tensor.extra or schema.ExtraTensorInfo()
            tensor.extra.device_type, tensor.extra.device_index = device

    def add_result(self, value: Any, what: str, device: Device = CPU) -> int:
        """A value that the next instruction computes."""
        match value:
            case torch.Tensor():
                return self._add_tensor(value, what, device)
            case torch.SymBool() | bool():
                return self.table.add(schema.Bool())
            case torch.SymInt() | int():
                return self.table.add(schema.Int())
            case torch.SymFloat() | float():
                return self.table.add(schema.Double())
        raise TypeError(f"{what} is of {type(value).__name__}, which a program cannot hold")

    # ---- The instructions that read them.

    def bind(self, node: Node, slot: int | list[int]) -> None:
        """Records that the value of `node` is value `slot` (a list: one per result)."""
        self._slot_of[node] = slot

    def results_of(self, node: Node) -> list[int]:
        """Indices of the results of a node with several."""
        results = self._slot_of[node]
        assert isinstance(results, list), f"{node} has one value"
        return results

    def index_of(self, node: Node) -> int:
        """The index of a node's value on the device that computed it."""
        if node not in self._slot_of and node.op == "placeholder":
            self._slot_of[node] = self._add_model_tensor(node)
        index = self._slot_of[node]
        assert isinstance(index, int), f"{node} has several values"
        return index

    def device_of(self, node: Node) -> Device:
        """The device that a node's value is on."""
        return self._device_of_index.get(self.index_of(node), CPU)

    def read(self, node: Node, device: Device = CPU) -> int:
        """The index of a node's value on `device`, for the next instruction to read."""
        index = self.index_of(node)
        source = self._device_of_index.get(index, CPU)
        if source != device and index in self._tensors:
            if CPU not in (source, device):
                index = self._copied(index, CPU, node)
            index = self._copied(index, device, node)
        self.slots.touch(index, len(self._instructions))
        return index

    def read_all(self, nodes: list[Node], device: Device = CPU) -> None:
        """Emits the copies needed to read `nodes` on `device` in one instruction."""
        for node in nodes:
            self.read(node, device)

    def _copied(self, index: int, device: Device, node: Node) -> int:
        """The index of a cached copy of a value on another device."""
        if (index, device) not in self._copies:
            copy = self._add_tensor(self._tensors[index], f"copy of {node.name}", device)
            self._add_copy(index, copy, device, node)
            self._copies[index, device] = copy
        return self._copies[index, device]

    def _add_copy(self, source: int, target: int, device: Device, node: Node) -> None:
        """Emits a copy to `device` from the host or to the host."""
        for index in (source, target):
            self.slots.touch(index, len(self._instructions))
        self._instructions.add_kernel(copy_kernel(device), [source, target, target], node)

    def after_change(self, node: Node, changed: int) -> None:
        """Records that the last instruction mutated the value of `node` in place, as `changed`."""
        original = self.index_of(node)
        if changed != original:
            self._add_copy(changed, original, self.device_of(node), node)
        for key in [key for key in self._copies if key[0] == original]:
            if self._copies[key] != changed:
                del self._copies[key]

    def write_by_way_of_host(self, state: Node, value: Node) -> None:
        """Emits copies of `value`, from any device, into `state` on its device."""
        self._add_copy(self.read(value), self.index_of(state), self.device_of(state), state)
