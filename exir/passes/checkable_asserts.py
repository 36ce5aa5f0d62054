"""Converts assertions to those that the runtime can check."""

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from pteron.exir.graph import kernels
from pteron.exir.graph.delegate import executorch_call_delegate
from pteron.exir.graph.lowered_backend_module import lowered_module_of
from pteron.exir.passes.pass_base import PassBase, PassResult


class CheckableAsserts(PassBase):
    """Rewrites all assertions to conditions, which delegates and runtime kernels check.

    before:  sym_constrain_range_for_size(n, max=9)
    after:   _assert_scalar(n >= 0, ...); _assert_scalar(n <= 9, ...)

    Drops conditions that are always true, dead code, and assertions on tensor metadata, which
    export has checked (with separate assertions for dynamic sizes).
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        graph = graph_module.graph
        before = len(graph.nodes)
        for node in list(graph.nodes):
            if node.target in kernels.RANGES:
                _assert_range(node, *node.args, **node.kwargs)
            holds = kernels.is_assertion(node) and node.args[0] is True
            if holds or node.target is torch.ops.aten._assert_tensor_metadata.default:
                graph.erase_node(node)
        for node in reversed(graph.nodes):
            if node.op == "call_function" and not node.users and not _asserts(node):
                graph.erase_node(node)
        graph_module.recompile()
        return PassResult(graph_module, modified=len(graph.nodes) != before)


def _asserts(node: Node) -> bool:
    if node.target is executorch_call_delegate:
        return any(map(kernels.is_assertion, lowered_module_of(node).nodes()))
    return kernels.is_assertion(node)


def _assert_range(node: Node, scalar: Any, min: Any = None, max: Any = None) -> None:
    if min is None:
        min = kernels.RANGES[node.target]  # type: ignore[index]
    graph = node.graph
    for compare, limit in ((operator.ge, min), (operator.le, max)):
        if limit is None:
            continue
        with graph.inserting_before(node):
            condition = graph.call_function(compare, (scalar, limit))
            check: Any = torch.ops.aten._assert_scalar.default
            made = condition, graph.call_function(check, (condition, "a number out of its range"))
        for new in made:
            new.meta = dict(node.meta)
        value = scalar.meta["val"] if isinstance(scalar, Node) else scalar
        condition.meta["val"] = compare(value, limit)
    graph.erase_node(node)
