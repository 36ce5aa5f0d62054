"""Emits one method."""

from __future__ import annotations

import operator
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from exir import kernels
from exir._program import constant_tensor, flat_outputs, input_specs_by_name, mutation_targets
from exir._serialize import schema
from exir._serialize.blob import Blob
from exir.delegate import executorch_call_delegate, lowered_module_of
from exir.emit.devices import CPU, Device, copy_kernel, device_of_delegate, device_of_users
from exir.emit.kernel_arguments import kernel_arguments, write_back_arguments
from exir.emit.source_frames import source_frames
from exir.emit.tensor_slots import StateTensor, TensorSlots, describe_tensor, nbytes_of
from exir.emit.value_table import ValueTable
from exir.shape_bounds import ShapeBounds
from exir.tensor_layout import dim_order_of

if TYPE_CHECKING:
    from exir.emit.emitter import EmitOptions, SharedData

__all__ = ["MethodEmitter", "container_types"]


def container_types(in_spec: pytree.TreeSpec, out_spec: pytree.TreeSpec) -> schema.ContainerTypes:
    """The trees of inputs and outputs as JSON; empty for trees of classes unknown to torch."""

    def dumps(spec: pytree.TreeSpec) -> str:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                return pytree.treespec_dumps(spec)
        except NotImplementedError:
            return ""

    return schema.ContainerTypes(dumps(in_spec), dumps(out_spec))


class MethodEmitter:
    """Emits one program as one method; ``slots`` then knows its planned memory."""

    def __init__(
        self, name: str, program: ExportedProgram, shared: SharedData, options: EmitOptions
    ) -> None:
        self.slots = TensorSlots()
        self._name = name
        self._program = program
        self._shared = shared
        self._options = options
        self._memory = options.memory[name]
        self._bounds = ShapeBounds(program.range_constraints)
        self._table = ValueTable()
        self._specs = input_specs_by_name(program)
        self._mutated = {target: index for index, target in mutation_targets(program)}
        self._state = {
            name for name, spec in self._specs.items() if name in self._written_inputs()
            and spec.kind is InputKind.BUFFER
        }  # fmt: skip
        self._slot_of: dict[Node, int | list[int]] = {}
        self._examples: dict[int, torch.Tensor] = {}
        self._homes: dict[int, Device] = {}
        self._copies: dict[tuple[int, Device], int] = {}
        self._instructions: list[schema.Instruction] = []
        self._origins: list[Node] = []
        self._operators: dict[tuple[str, str], int] = {}
        self._delegates: list[schema.Delegate] = []

    def emit(self) -> schema.Method:
        """The method, but for the places of its planned tensors."""
        inputs = self._emit_inputs()
        for node in self._program.graph.nodes:
            if node.op == "call_function":
                self._emit_call(node)
        self._write_back()
        outputs = self._emit_outputs()
        self._bounds.check(self._name)
        chain = schema.Chain(instructions=self._instructions)
        if self._options.stacktraces:
            chain.stacktrace = [schema.FrameList(source_frames(node)) for node in self._origins]
        spec = self._program.call_spec
        assert spec.in_spec is not None and spec.out_spec is not None
        return schema.Method(
            name=self._name,
            container_types=container_types(spec.in_spec, spec.out_spec),
            values=self._table.values,
            inputs=inputs,
            outputs=outputs,
            chains=[chain],
            operators=[schema.Operator(*key) for key in self._operators],
            delegates=self._delegates,
        )

    # ---- Values.

    def _written_inputs(self) -> set[str]:
        """Placeholders that the method writes: by delegates in place, and at its end."""
        written = set(self._mutated)
        for node in self._program.graph.nodes:
            if node.target is executorch_call_delegate:
                for _, index in lowered_module_of(node).mutated_inputs:
                    written.add(node.args[1 + index].name)
        return written

    def _emit_inputs(self) -> list[int]:
        returned = {n for n in flat_outputs(self._program.graph) if isinstance(n, Node)}
        written = self._written_inputs()
        inputs = []
        for node in self._program.graph.nodes:
            if node.op != "placeholder":
                continue
            spec = self._specs[node.name]
            if spec.kind is not InputKind.USER_INPUT:
                continue
            value = node.meta.get("val")
            if isinstance(spec.arg, ConstantArgument):
                # A number that the export has specialised on: the runtime checks it.
                index = self._table.add(_literal_input(spec.arg.value, node.name))
            elif isinstance(value, torch.Tensor):
                on_device = self._options.inputs_on_device.get(self._name, False)
                device = device_of_users(self._program, node) if on_device else CPU
                index = self._add_tensor(value, f"input {node.name}", device)
                # An input that is returned cannot stay the caller's memory in all runtimes, and
                # one that is written must.
                planned = self._memory.alloc_graph_input or node in returned
                if not planned or node.name in written:
                    self.slots.release(index)
            else:
                raise TypeError(
                    f"input {node.name} of method {self._name!r} is a dynamic"
                    f" {type(value).__name__}, but numbers are fixed when a program is exported."
                    f" Leave it out of dynamic_shapes, or pass it as a tensor."
                )
            self._slot_of[node] = index
            inputs.append(index)
        return inputs

    def _add_tensor(self, value: torch.Tensor, what: str, device: Device = CPU) -> int:
        """A tensor in planned memory, alive from the next instruction on."""
        tensor = describe_tensor(value, what, self._bounds)
        index = self._table.add(tensor)
        self._settle(index, tensor, device)
        nbytes = nbytes_of(tensor, value.dtype)
        self.slots.plan(index, tensor, nbytes, device, len(self._instructions))
        self._examples[index] = value
        return index

    def _settle(self, index: int, tensor: schema.Tensor, device: Device) -> None:
        """Notes where a tensor lives."""
        if device != CPU:
            self._homes[index] = device
            tensor.extra = tensor.extra or schema.ExtraTensorInfo()
            tensor.extra.device_type, tensor.extra.device_index = device

    def _add_model_tensor(self, node: Node) -> int:
        """A parameter, buffer or constant of the model, when it is first used."""
        spec = self._specs[node.name]
        if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            raise TypeError(f"input {node.name} of kind {spec.kind.name} cannot be in a program")
        assert spec.target is not None
        data = constant_tensor(self._program, spec)
        tensor = describe_tensor(data, spec.target, self._bounds)
        # The bytes lie in the order of dimensions that the file tells.
        blob = Blob(data.detach().permute(dim_order_of(data)))
        if node.name in self._state:
            tensor.extra = schema.ExtraTensorInfo(fully_qualified_name=spec.target)
            initial = blob if data.count_nonzero() else None
            device = device_of_users(self._program, node)
            state = StateTensor(tensor, spec.target, blob.nbytes, initial, device)
            self.slots.state.append(state)
        else:
            device = CPU
            self._place_constant(node, spec.target, tensor, blob)
        index = self._table.add(tensor)
        self._settle(index, tensor, device)
        self._examples[index] = node.meta["val"]
        return index

    def _place_constant(self, node: Node, fqn: str, tensor: schema.Tensor, blob: Blob) -> None:
        tag = self._options.external_constants(node)
        if tag is None:
            constants = self._shared.constants
            tensor.data_index = constants.setdefault(blob, len(constants)) + 1
            return
        layout = schema.TensorLayout(tensor.scalar_type, tensor.sizes, tensor.dim_order)
        self._shared.named_data.add_named_data(
            fqn, blob.data, external_tag=tag, tensor_layout=layout, digest=blob.digest
        )
        tensor.extra = schema.ExtraTensorInfo(
            fully_qualified_name=fqn, location=schema.TensorLocation.EXTERNAL
        )

    def _home_slot(self, node: Node) -> int:
        """The number of a node's value, wherever it lives."""
        if node not in self._slot_of and node.op == "placeholder":
            self._slot_of[node] = self._add_model_tensor(node)
        index = self._slot_of[node]
        assert isinstance(index, int), f"{node} has several values"
        return index

    def _slot(self, node: Node, device: Device = CPU) -> int:
        """The number of a node's value on ``device``, which the next instruction reads."""
        index = self._home_slot(node)
        home = self._homes.get(index, CPU)
        if home != device and index in self._examples:
            if CPU not in (home, device):
                index = self._copied(index, CPU, node)
            index = self._copied(index, device, node)
        self.slots.touch(index, len(self._instructions))
        return index

    def _copied(self, index: int, device: Device, node: Node) -> int:
        """The number of a copy of a value on another device, made once."""
        if (index, device) not in self._copies:
            copy = self._add_tensor(self._examples[index], f"copy of {node.name}", device)
            self._add_copy(index, copy, device, node)
            self._copies[index, device] = copy
        return self._copies[index, device]

    def _add_copy(self, source: int, target: int, device: Device, node: Node) -> None:
        """An instruction that copies to ``device`` from the other side."""
        for index in (source, target):
            self.slots.touch(index, len(self._instructions))
        operator_index = self._operator(copy_kernel(device))
        self._add_instruction(schema.KernelCall(operator_index, [source, target, target]), node)

    def _add_result(self, value: Any, what: str, device: Device = CPU) -> int:
        if isinstance(value, torch.Tensor):
            return self._add_tensor(value, what, device)
        if isinstance(value, torch.SymInt | int) and not isinstance(value, bool):
            return self._table.add(schema.Int(0))
        if isinstance(value, torch.SymFloat | float):
            return self._table.add(schema.Double(0.0))
        if isinstance(value, torch.SymBool | bool):
            return self._table.add(schema.Bool(False))
        raise TypeError(f"{what} is of {type(value).__name__}, which a program cannot hold")

    # ---- Instructions.

    def _add_instruction(self, call: schema.InstructionCall, node: Node) -> None:
        self._instructions.append(schema.Instruction(call))
        self._origins.append(node)

    def _emit_call(self, node: Node) -> None:
        if node.target is executorch_call_delegate:
            self._emit_delegate_call(node)
        elif node.target is operator.getitem:
            source, position = node.args
            assert isinstance(source, Node) and isinstance(position, int)
            indices = self._slot_of[source]
            assert isinstance(indices, list)
            self._slot_of[node] = indices[position]
        elif not isinstance(node.meta["val"], torch.Tensor | list | tuple):
            self._emit_number_call(node)
        elif isinstance(node.target, OpOverload):
            self._emit_kernel_call(node, node.target)
        else:
            raise TypeError(f"{node.name} ({node.target}) is no call that a program can hold")

    def _emit_delegate_call(self, node: Node) -> None:
        module = lowered_module_of(node)
        device = device_of_delegate(module)
        for arg in node.args[1:]:
            if isinstance(arg, Node):
                self._slot(arg, device)  # copies come before the call, and live until it
        arguments = [
            self._slot(arg, device) if isinstance(arg, Node) else self._table.literal(arg)
            for arg in node.args[1:]
        ]
        in_place = {output: arguments[index] for output, index in module.mutated_inputs}
        results = [
            in_place[position]
            if position in in_place
            else self._add_result(value, f"output {position} of delegate {node.name}", device)
            for position, value in enumerate(node.meta["val"])
        ]
        self._slot_of[node] = results
        outputs = [r for position, r in enumerate(results) if position not in in_place]
        call = schema.DelegateCall(len(self._delegates), arguments + outputs)
        self._delegates.append(
            schema.Delegate(
                module.backend_id,
                self._place_delegate_data(module.processed_bytes),
                [schema.CompileSpec(spec.key, spec.value) for spec in module.compile_specs],
            )
        )
        if module.named_data_store_output is not None:
            self._shared.named_data.merge_named_data_store(module.named_data_store_output)
        self._add_instruction(call, node)
        for _, position in module.mutated_inputs:
            state = node.args[1 + position]
            assert isinstance(state, Node)
            self._after_change(self._home_slot(state), arguments[position], state)

    def _after_change(self, home: int, changed: int, node: Node) -> None:
        """Brings a value that was changed on another device home, and forgets stale copies."""
        if changed != home:
            self._add_copy(changed, home, self._homes.get(home, CPU), node)
        for key in [key for key in self._copies if key[0] == home]:
            if self._copies[key] != changed:
                del self._copies[key]

    def _place_delegate_data(self, data: bytes) -> schema.DelegateData:
        if data and self._options.delegate_segments:
            segments = self._shared.delegate_data
            index = segments.setdefault(Blob(data), len(segments))
            return schema.DelegateData(schema.DelegateDataLocation.SEGMENT, index)
        inline = self._shared.inline_delegate_data
        index = inline.setdefault(data, len(inline))
        return schema.DelegateData(schema.DelegateDataLocation.INLINE, index)

    def _operator(self, name: str) -> int:
        base, _, overload = name.partition(".")
        return self._operators.setdefault((base, overload), len(self._operators))

    def _emit_number_call(self, node: Node) -> None:
        """Arithmetic on sizes: arguments, then the result."""
        arguments = [
            self._slot(arg) if isinstance(arg, Node) else self._table.literal(arg)
            for arg in node.args
        ]
        result = self._add_result(node.meta["val"], f"output of {node.name}")
        name = kernels.kernel_name(node.target)
        assert name is not None
        self._slot_of[node] = result
        self._add_instruction(schema.KernelCall(self._operator(name), [*arguments, result]), node)

    def _emit_kernel_call(self, node: Node, op: OpOverload) -> None:
        out = kernels.out_variant(op)
        assert out is not None, f"{node.name} ({op}) has no kernel"
        for arg in node.all_input_nodes:
            self._slot(arg)  # copies from devices come before the call
        value = node.meta["val"]
        values = list(value) if isinstance(value, list | tuple) else [value]
        results = [self._add_result(item, f"output of {node.name} ({op})") for item in values]
        arguments = kernel_arguments(op, out, node, results, self._table, self._slot)
        self._slot_of[node] = results if isinstance(value, list | tuple) else results[0]
        name = kernels.kernel_name(op)
        assert name is not None
        self._add_instruction(schema.KernelCall(self._operator(name), arguments), node)

    def _write_back(self) -> None:
        """Copies new values of state that no delegate wrote in place."""
        outputs = flat_outputs(self._program.graph)
        placeholders = {n.name: n for n in self._program.graph.nodes if n.op == "placeholder"}
        for target, position in self._mutated.items():
            node, new = placeholders[target], outputs[position]
            home = self._home_slot(node)
            device = self._homes.get(home, CPU)
            value = self._slot(new, device)
            if device != CPU:
                # Between two places of one device there is no kernel: by way of the host.
                self._add_copy(self._copied(value, CPU, new), home, device, node)
                continue
            arguments = write_back_arguments(home, value, self._table)
            self._add_instruction(schema.KernelCall(self._operator(kernels.COPY), arguments), node)

    def _emit_outputs(self) -> list[int]:
        outputs = []
        for value, spec in zip(
            flat_outputs(self._program.graph),
            self._program.graph_signature.output_specs,
            strict=True,
        ):
            if spec.kind is not OutputKind.USER_OUTPUT:
                continue
            if not isinstance(value, Node):
                outputs.append(self._table.literal(value))
                continue
            on_device = self._options.outputs_on_device.get(self._name, False)
            home = self._homes.get(self._home_slot(value), CPU)
            index = self._slot(value, home if on_device else CPU)
            # Outputs live on after the last instruction.
            self.slots.touch(index, len(self._instructions))
            if not self._memory.alloc_graph_output and value.op == "call_function":
                self.slots.release(index)
            outputs.append(index)
        return outputs


def _literal_input(value: Any, name: str) -> schema.Value:
    from exir.emit.value_table import literal

    try:
        return literal(value)
    except TypeError as error:
        raise TypeError(f"input {name}: {error}") from None
