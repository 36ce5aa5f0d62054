"""Parameters that the model itself writes, as `with torch.no_grad(): self.scale.mul_(2)` does."""

from collections.abc import Iterator
from typing import Any

from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from pteron.exir.graph.exported_program import copy_program


def written_parameters_as_buffers(program: ExportedProgram) -> ExportedProgram:
    """The program with buffers in place of the parameters that it writes: state of the method."""
    written = set(_written(program.graph_module))
    specs = zip(
        program.graph.find_nodes(op="placeholder"),
        program.graph_signature.input_specs,
        strict=True,
    )
    names = {
        spec.arg.name
        for node, spec in specs
        if node in written and spec.kind is InputKind.PARAMETER
    }
    if not names:
        return program
    order = [spec.arg.name in names for spec in program.graph_signature.input_specs]
    program = copy_program(program)
    state = dict(program.state_dict)
    for is_written, spec in zip(order, program.graph_signature.input_specs, strict=True):
        if is_written:
            assert spec.target is not None
            spec.kind, spec.persistent = InputKind.BUFFER, True
            state[spec.target] = state[spec.target].detach()
    program._state_dict = state
    return program


def _written(module: GraphModule) -> Iterator[Node]:
    """Inputs of a graph whose memory an operator of it, or of its subgraphs, writes."""
    for node in module.graph.nodes:
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            for argument, value in zip(node.target._schema.arguments, node.args, strict=False):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    yield from _viewed_input(value)
        elif isinstance(node.target, HigherOrderOperator):
            flat = [arg for arg in pytree.tree_leaves(node.args) if isinstance(arg, Node)]
            for graph in filter(lambda arg: arg.op == "get_attr", flat):
                inner = getattr(module, str(graph.target))
                if isinstance(inner, GraphModule):
                    inputs = inner.graph.find_nodes(op="placeholder")
                    written = set(_written(inner))
                    # Operands come last.
                    for operand, given in zip(reversed(flat), reversed(inputs), strict=False):
                        if given in written:
                            yield from _viewed_input(operand)


def _viewed_input(value: Any) -> Iterator[Node]:
    while isinstance(value, Node) and value.op == "call_function" and value.args:
        value = value.args[0]
    if isinstance(value, Node) and value.op == "placeholder":
        yield value
