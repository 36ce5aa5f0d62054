"""Operands of torch.cond and while_loop that share memory.

    first, last = x[:4], x[4:]
    torch.cond(x.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (first, last))

torch.export takes that, and decomposing raises "might be aliasing the input or the output".
"""

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from pteron.exir.graph.exported_program import copy_program

_CALLERS = {torch.ops.higher_order.cond, torch.ops.higher_order.while_loop}


def copy_overlapping_operands(program: ExportedProgram) -> ExportedProgram:
    """The program with copies for all operands but the first of those that share memory.

    Not where a graph that is called writes memory.
    """
    if not any(_overlapping(module) for module in _graphs(program.graph_module)):
        return program
    program = copy_program(program)
    for module in _graphs(program.graph_module):
        for caller, positions in _overlapping(module).items():
            flat, spec = pytree.tree_flatten(caller.args)
            with module.graph.inserting_before(caller):
                for i in positions:
                    copy = module.graph.call_function(torch.ops.aten.clone.default, (flat[i],))
                    copy.meta = {**flat[i].meta, "val": flat[i].meta["val"].clone()}
                    flat[i] = copy
            caller.args = pytree.tree_unflatten(flat, spec)
        module.recompile()
    return program


def _graphs(module: GraphModule) -> Iterator[GraphModule]:
    return (inner for inner in module.modules() if isinstance(inner, GraphModule))


def _overlapping(module: GraphModule) -> dict[Node, list[int]]:
    """Callers, and the positions among their arguments, flat, of what is to be copied."""
    found = {}
    for node in module.graph.nodes:
        if node.target not in _CALLERS:
            continue
        flat = pytree.tree_leaves(node.args)
        owners: set[Node] = set()
        positions = []
        for i, value in enumerate(flat):
            if not isinstance(value, Node) or not isinstance(value.meta.get("val"), torch.Tensor):
                continue
            owner = _owner(value)
            if owner in owners:
                positions.append(i)
            owners.add(owner)
        called = (
            getattr(module, str(v.target))
            for v in flat
            if isinstance(v, Node) and v.op == "get_attr"
        )
        graphs = [graph for graph in called if isinstance(graph, GraphModule)]
        if positions and not any(_writes(inner) for graph in graphs for inner in _graphs(graph)):
            found[node] = positions
    return found


def _writes(module: GraphModule) -> bool:
    return any(
        isinstance(node.target, OpOverload) and node.target._schema.is_mutable
        for node in module.graph.nodes
    )


def _owner(node: Node) -> Node:
    """The node whose memory this one views, or itself."""
    while node.op == "call_function":
        # An element of what an operator returns as a list, such as split.
        made: Any = node.args[0] if node.target is operator.getitem else node
        returns = made.target._schema.returns if isinstance(made.target, OpOverload) else []
        if not returns or returns[0].alias_info is None or not isinstance(made.args[0], Node):
            break
        node = made.args[0]
    return node
