"""Breaks up operators that no backend took and no kernel does."""

from __future__ import annotations

import operator
from typing import Any

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from exir import kernels
from exir._program import copy_program
from exir.backend.utils import get_non_lowered_nodes
from exir.decompositions import decomposition_table
from exir.passes.pass_base import ProgramPass

__all__ = ["DecomposeLeftovers"]


class DecomposeLeftovers(ProgramPass):
    """Decomposes calls that are left to the runtime and have no kernel there.

    before:  y = aten.addcmul(x, a, b)     after:  m = aten.mul(a, b); y = aten.add(x, m)

    Partitioners see operators whole if they ask for it; this is for those that they left all the
    same. Operators with a kernel, and those that cannot be decomposed, stay.
    """

    def call(self, program: ExportedProgram) -> ExportedProgram:
        table = decomposition_table()
        for op in [op for op in table if isinstance(op, OpOverload)]:
            name = kernels.kernel_name(op)
            if name is not None and kernels.has_kernel(name):
                table.pop(op)
        leftovers = [
            node
            for node in get_non_lowered_nodes(program.graph)
            if node.target in table and not kernels.is_executable(node)
        ]
        if not leftovers:
            return program
        names = {node.name for node in leftovers}
        program = copy_program(program)
        for node in list(program.graph.nodes):
            if node.name in names and node.op == "call_function":
                _inline(node, table)
        program.graph_module.recompile()
        return program


def _inline(node: Node, table: dict[OpOverload, Any]) -> None:
    """Puts the decomposition of a call in its place."""
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    inputs = list(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, Node)))
    examples = [item.meta["val"] for item in inputs]

    def run(*values: Any) -> Any:
        by_node = dict(zip(inputs, values, strict=True))
        given = [by_node[leaf] if isinstance(leaf, Node) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(given, spec)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    traced = make_fx(run, decomposition_table=table)(*examples)
    graph: Graph = node.graph
    placeholders = traced.graph.find_nodes(op="placeholder")
    mapping = dict(zip(placeholders, inputs, strict=True))
    with graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "call_function":
                mapping[inner] = graph.node_copy(inner, mapping.__getitem__)
                for key in ("stack_trace", "nn_module_stack"):
                    if key in node.meta:
                        mapping[inner].meta[key] = node.meta[key]
            elif inner.op == "get_attr":
                raise NotImplementedError(
                    f"the decomposition of {node.name} ({node.target}) makes constants"
                )
    results = traced.graph.output_node().args[0]
    if isinstance(results, Node):
        node.replace_all_uses_with(mapping[results])
    else:
        for user in list(node.users):
            assert user.target is operator.getitem
            user.replace_all_uses_with(mapping[results[user.args[1]]])
            graph.erase_node(user)
    graph.erase_node(node)
