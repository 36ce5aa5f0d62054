"""Emits one method: walks its graph and adds an instruction for each call."""

import collections
import enum
import inspect
import json
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from pteron.exir._serialize import schema
from pteron.exir._serialize.blob import Blob
from pteron.exir.emit.assertion_message import assertion_message
from pteron.exir.emit.devices import CPU, device_of_delegate
from pteron.exir.emit.emit_options import EmitOptions
from pteron.exir.emit.instruction_list import InstructionList
from pteron.exir.emit.method_values import MethodValues
from pteron.exir.emit.shared_data import SharedData
from pteron.exir.emit.tensor_slots import TensorSlots
from pteron.exir.graph import kernels
from pteron.exir.graph.delegate import executorch_call_delegate
from pteron.exir.graph.exported_program import argument_name, flat_outputs, mutation_targets
from pteron.exir.graph.lowered_backend_module import lowered_module_of


def container_types(
    in_spec: pytree.TreeSpec, out_spec: pytree.TreeSpec, input_names: list[str]
) -> schema.ContainerTypes:
    """Trees of inputs and outputs, as JSON, and the names of what is in them."""

    def dumps(spec: pytree.TreeSpec) -> str:
        return json.dumps([1, _described(spec)])

    output_names = list(_names(out_spec))
    if len(set(output_names)) < len(output_names):
        output_names = [f"output_{i}" for i in range(len(output_names))]
    return schema.ContainerTypes(dumps(in_spec), dumps(out_spec), input_names, output_names)


def _names(spec: pytree.TreeSpec, *path: str) -> Iterator[str]:
    """Names of the leaves of an output: their path of keys and positions."""
    if spec.is_leaf():
        name = "_".join(path or ("0",))
        yield f"output_{name}" if name[0].isdigit() else name
        return
    children = spec.children()
    for key, child in zip(_keys(spec) or range(len(children)), children, strict=True):
        yield from _names(child, *path, _text(key))


def _described(spec: pytree.TreeSpec) -> dict[str, Any]:
    """A tree as torch.utils._pytree.treespec_dumps writes it, which refuses some classes.

    Of these, named tuples say their fields, and others are tuples.
    """
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    kind, context = spec.type, spec.context
    is_tuple = inspect.isclass(kind) and issubclass(kind, tuple)
    if kind is collections.namedtuple or (is_tuple and _keys(spec)):
        kind, context = collections.namedtuple, _keys(spec)
    elif is_tuple:
        kind = tuple
    if kind is collections.defaultdict:
        kind, context = dict, _keys(spec)
    return {
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "context": json.dumps(context, default=_text),
        "children_spec": [_described(child) for child in spec.children()],
    }


def _text(value: object) -> str:
    """A key or an object of a tree's, without the address that str() may give."""
    plain = isinstance(value, str | int | float | enum.Enum) or inspect.isclass(value)
    return str(value) if plain else type(value).__name__


def _keys(spec: pytree.TreeSpec) -> list[Any] | None:
    """Of what a tree's children are the values: a dict's keys, the fields of a class."""
    context = spec.context
    found = (
        context._fields  # of a named tuple
        if hasattr(context, "_fields")
        else spec.type.__match_args__  # of torch.return_types
        if spec.type.__module__ == "torch.return_types"
        else context
    )
    if isinstance(found, list) and len(found) == 2 and isinstance(found[1], list):
        found = found[1] if inspect.isclass(found[0]) else found[0]  # defaultdict, dataclass
    known = isinstance(found, list | tuple) and len(found) == spec.num_children
    return list(found) if known else None


class MethodEmitter:
    """Emits one program as one method; `slots` then has its planned memory."""

    def __init__(
        self,
        name: str,
        program: ExportedProgram,
        shared: SharedData,
        options: EmitOptions,
    ) -> None:
        self._name = name
        self._program = program
        self._shared = shared
        self._options = options
        self._instructions = InstructionList()
        self._values = MethodValues(name, program, self._instructions, shared, options)
        self._delegates: list[schema.Delegate] = []

    @property
    def slots(self) -> TensorSlots:
        return self._values.slots

    def emit(self) -> schema.Method:
        """The method, without the addresses of its planned tensors (see `allocate`)."""
        inputs = self._values.add_inputs()
        for node in self._program.graph.nodes:
            if node.op == "call_function":
                self._emit_call(node)
        self._write_back()
        outputs = self._emit_outputs()
        self._values.bounds.check(self._name)
        spec = self._program.call_spec
        assert spec.in_spec is not None and spec.out_spec is not None
        names = [
            argument_name(spec.arg.name)
            for spec in self._program.graph_signature.input_specs
            if spec.kind is InputKind.USER_INPUT
        ]
        return schema.Method(
            name=self._name,
            container_types=container_types(spec.in_spec, spec.out_spec, names),
            values=self._values.table.values,
            inputs=inputs,
            outputs=outputs,
            chains=[self._instructions.chain(self._options.stacktraces)],
            operators=self._instructions.operators(),
            delegates=self._delegates,
        )

    def _emit_call(self, node: Node) -> None:
        if node.target is executorch_call_delegate:
            self._emit_delegate_call(node)
        elif node.target is operator.getitem:
            source, position = node.args
            assert isinstance(source, Node) and isinstance(position, int)
            self._values.bind(node, self._values.results_of(source)[position])
        elif node.target is torch.ops.aten.clone.default:
            self._emit_clone(node)
        else:
            self._emit_kernel_call(node)

    def _emit_delegate_call(self, node: Node) -> None:
        values = self._values
        module = lowered_module_of(node)
        device = device_of_delegate(module)
        values.read_all([arg for arg in node.args[1:] if isinstance(arg, Node)], device)
        arguments = [
            values.read(arg, device) if isinstance(arg, Node) else values.table.literal(arg)
            for arg in node.args[1:]
        ]
        in_place = {output: arguments[index] for output, index in module.mutated_inputs}
        results = [
            in_place[position]
            if position in in_place
            else values.add_result(value, f"output {position} of delegate {node.name}", device)
            for position, value in enumerate(node.meta["val"])
        ]
        values.bind(node, results)
        outputs = [r for position, r in enumerate(results) if position not in in_place]
        call = schema.DelegateCall(len(self._delegates), arguments + outputs)
        self._delegates.append(
            schema.Delegate(
                module.backend_id,
                self._add_delegate_data(module.processed_bytes),
                [schema.CompileSpec(spec.key, spec.value) for spec in module.compile_specs],
            )
        )
        if module.named_data_store_output is not None:
            self._shared.named_data.merge_named_data_store(module.named_data_store_output)
        self._instructions.add(call, node)
        for _, position in module.mutated_inputs:
            state = node.args[1 + position]
            assert isinstance(state, Node)
            values.after_change(state, arguments[position])

    def _add_delegate_data(self, data: bytes) -> schema.DelegateData:
        if data and self._options.delegate_segments:
            segments = self._shared.delegate_data
            index = segments.setdefault(Blob(data), len(segments))
            return schema.DelegateData(schema.DelegateDataLocation.SEGMENT, index)
        inline = self._shared.inline_delegate_data
        index = inline.setdefault(data, len(inline))
        return schema.DelegateData(schema.DelegateDataLocation.INLINE, index)

    def _emit_kernel_call(self, node: Node) -> None:
        """Size arithmetic: arguments, then the result. Assertions: the condition, then the
        message."""
        values = self._values
        given: Sequence[Any] = node.args
        is_assertion = node.target in kernels.ASSERTIONS
        if is_assertion:
            given = [node.args[0], *assertion_message(node)]
        values.read_all([arg for arg in given if isinstance(arg, Node)])
        arguments = [
            values.read(arg) if isinstance(arg, Node) else values.table.literal(arg)
            for arg in given
        ]
        if not is_assertion:
            arguments.append(values.add_result(node.meta["val"], f"output of {node.name}"))
            values.bind(node, arguments[-1])
        name = kernels.kernel_of(node)
        assert name is not None, f"{node.name} ({node.target}) has no delegate and no kernel"
        self._instructions.add_kernel(name, arguments, node)

    def _emit_clone(self, node: Node) -> None:
        values = self._values
        (source,) = node.all_input_nodes
        values.read(source)  # a copy from a device comes first
        result = values.add_result(node.meta["val"], f"output of {node.name}")
        memory_format = values.table.literal(node.kwargs.get("memory_format"))
        arguments = [values.read(source), memory_format, result, result]
        values.bind(node, result)
        self._instructions.add_kernel(kernels.CLONE, arguments, node)

    def _write_back(self) -> None:
        """Copies new values of state that no delegate wrote in place."""
        values = self._values
        outputs = flat_outputs(self._program.graph)
        placeholders = {n.name: n for n in self._program.graph.find_nodes(op="placeholder")}
        for position, name in mutation_targets(self._program):
            state, value = placeholders[name], outputs[position]
            if values.device_of(state) == CPU:
                source = values.read(value)
                target, is_async = values.index_of(state), values.table.literal(False)
                arguments = [target, source, is_async, target]
                self._instructions.add_kernel(kernels.COPY, arguments, state)
            else:
                values.write_by_way_of_host(state, value)

    def _emit_outputs(self) -> list[int]:
        values = self._values
        on_device = self._options.outputs_on_device.get(self._name, False)
        outputs = []
        for value, spec in zip(
            flat_outputs(self._program.graph),
            self._program.graph_signature.output_specs,
            strict=True,
        ):
            if spec.kind is not OutputKind.USER_OUTPUT:
                continue
            if not isinstance(value, Node):
                outputs.append(values.table.literal(value))
                continue
            outputs.append(values.read(value, values.device_of(value) if on_device else CPU))
        for index in outputs:
            # Live after the last instruction, including copies of other values from a device.
            self.slots.touch(index, len(self._instructions))
            if not self._options.memory[self._name].alloc_graph_output:
                self.slots.release(index)
        return outputs
