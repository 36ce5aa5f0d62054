"""Converts functional state updates to in-place mutations."""

import operator

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputSpec
from torch.fx import Node

from pteron.exir.graph.exported_program import (
    argument_spec,
    copy_program,
    flat_outputs,
    make_program,
    mutation_targets,
)
from pteron.exir.graph.lowered_backend_module import lowered_modules
from pteron.exir.passes.pass_base import ProgramPass


class ResolveMutations(ProgramPass):
    """Makes delegates mutate state in place, as they were compiled to.

    before:  call = delegate(cache, x)     after:  call = delegate(cache, x)   # writes cache
             new = call[0]; y = call[1]            y = call[1]
             z = relu(new)                         z = relu(cache)
             return new -> cache, z                return z

    A reader of the old value must run before the call: it is moved there, or, if it depends
    on the call, reads a clone. A new value that no delegate computes stays a mutation output, which
    the emitter writes back at the end of the method. From here on the order of nodes matters.
    """

    def call(self, program: ExportedProgram) -> ExportedProgram:
        program = copy_program(program)
        graph = program.graph
        placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
        owned = {placeholders[name] for _, name in mutation_targets(program)}
        for call, module in lowered_modules(program.graph_module):
            results = {n.args[1]: n for n in call.users if n.target is operator.getitem}
            for output, index in module.mutated_inputs:
                state = call.args[1 + index]
                assert isinstance(state, Node)
                if state.op == "placeholder" and state not in owned:
                    # Not a mutation, for instance after a pass has dropped it.
                    state = _clone_before(call, state)
                    call.update_arg(1 + index, state)
                _read_before(call, state, results.get(output))
                if output in results:
                    results[output].replace_all_uses_with(state)
                    graph.erase_node(results[output])
        return _drop_resolved(program)

    def ensures(self, program: ExportedProgram) -> None:
        for call, module in lowered_modules(program.graph_module):
            for output, _ in module.mutated_inputs:
                assert not any(
                    n.target is operator.getitem and n.args[1] == output for n in call.users
                ), f"output {output} of {call} is still read"


def _clone_before(call: Node, value: Node) -> Node:
    with call.graph.inserting_before(call):
        clone = call.graph.call_function(torch.ops.aten.clone.default, (value,))
    clone.meta["val"] = value.meta["val"]
    return clone


def _ancestors_after(node: Node, call: Node, position: dict[Node, int]) -> list[Node] | None:
    """`node` and its dependencies after `call`, in order; None if these include the call."""
    found: set[Node] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current is call:
            return None
        if current not in found and position[current] > position[call]:
            found.add(current)
            stack.extend(current.all_input_nodes)
    return sorted(found, key=position.__getitem__)


def _read_before(call: Node, state: Node, new_value: Node | None) -> None:
    """Makes every reader of the old `state` come before `call`, or read a clone."""
    position = {node: index for index, node in enumerate(call.graph.nodes)}
    in_place = {node for node, module in lowered_modules(_owner(call)) if module.mutated_inputs}
    late = [user for user in state.users if position[user] > position[call]]
    clone: Node | None = None
    for reader in late:
        moved = None if reader.op == "output" else _ancestors_after(reader, call, position)
        if moved is not None and not in_place.intersection(moved):
            for node in moved:
                call.prepend(node)
            position = {node: index for index, node in enumerate(call.graph.nodes)}
            continue
        clone = clone or _clone_before(call, state)
        reader.replace_input_with(state, clone)


def _owner(call: Node) -> torch.fx.GraphModule:
    module = call.graph.owning_module
    assert module is not None
    return module


def _drop_resolved(program: ExportedProgram) -> ExportedProgram:
    """The program without mutation outputs that have become the state itself."""
    placeholders = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    state_of = {index: placeholders[name] for index, name in mutation_targets(program)}
    outputs = flat_outputs(program.graph)
    # One state may be written back from another's old value: read them all before writing any.
    states = set(state_of.values())
    kept, specs = [], []
    for index, (value, spec) in enumerate(
        zip(outputs, program.graph_signature.output_specs, strict=True)
    ):
        if index in state_of:
            if value is state_of[index]:
                continue
            if value in states:
                value = _clone_before(program.graph.output_node(), value)
        kept.append(value)
        specs.append(OutputSpec(spec.kind, argument_spec(value), spec.target))
    program.graph.output_node().args = (tuple(kept),)
    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    assert in_spec is not None and out_spec is not None
    return make_program(
        program.graph_module,
        program.graph,
        program.graph_signature.input_specs,
        specs,
        program,
        in_spec=in_spec,
        out_spec=out_spec,
    )
