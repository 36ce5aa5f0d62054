"""Alias analysis of a graph: sets of nodes that share memory, and which are mutated.

sets = AliasSets(graph)
sets.find(a) is sets.find(b)    # same memory, through any chain of views?
sets.is_written(a)              # does any node write that memory?
"""

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, Node

#: Control flow whose branches are functional: torch.export checks that they write no operand.
_FUNCTIONAL_CONTROL_FLOW = ("cond", "map", "map_impl", "scan", "associative_scan", "while_loop")


class AliasSets:
    """A union-find of a graph's nodes by memory. Each node without a tensor is a set."""

    def __init__(self, graph: Graph) -> None:
        self._parent: dict[Node, Node] = {node: node for node in graph.nodes}
        self._written: set[Node] = set()
        self._outside: set[Node] = set()
        self._outputs: set[Node] = set()
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self._outside.add(node)
            elif node.op == "output":
                self._outputs.update(node.all_input_nodes)
            else:
                self._add(node)

    def find(self, node: Node) -> Node:
        """The representative of the node's set."""
        while self._parent[node] is not node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def unite(self, left: Node, right: Node) -> None:
        """Merges the sets of the two nodes."""
        left, right = self.find(left), self.find(right)
        if left is right:
            return
        self._parent[right] = left
        for members in (self._written, self._outside, self._outputs):
            if right in members:
                members.add(left)

    def is_written(self, node: Node) -> bool:
        """Whether any node writes the memory of `node`."""
        return self._marked(node, self._written)

    def is_from_outside(self, node: Node) -> bool:
        """Whether the memory is an input's or a constant's."""
        return self._marked(node, self._outside)

    def is_returned(self, node: Node) -> bool:
        """Whether the memory is (part of) an output's."""
        return self._marked(node, self._outputs)

    def _marked(self, node: Node, members: set[Node]) -> bool:
        root = self.find(node)
        return any(self.find(member) is root for member in members)

    def _add(self, node: Node) -> None:
        for argument, writes in _aliased_arguments(node):
            self.unite(argument, node)
            if writes:
                self._written.add(argument)
        for argument in _written_arguments(node):
            self._written.add(argument)


def _nodes_of(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _nodes_of(item)


def _bound_arguments(node: Node) -> Iterator[tuple[torch._C.Argument, Any]]:
    assert isinstance(node.target, torch._ops.OpOverload)
    for index, argument in enumerate(node.target._schema.arguments):
        if index < len(node.args) and not argument.kwarg_only:
            yield argument, node.args[index]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]


def _aliased_arguments(node: Node) -> Iterator[tuple[Node, bool]]:
    """Arguments that the node's result aliases, and whether the node mutates them."""
    if node.target is operator.getitem:
        for source in _nodes_of(node.args[0]):
            yield source, False
    elif isinstance(node.target, torch._ops.OpOverload):
        returned: set[str] = set()
        for result in node.target._schema.returns:
            if result.alias_info is not None:
                returned |= result.alias_info.before_set
        for argument, value in _bound_arguments(node):
            info = argument.alias_info
            # "Tensor(a -> *)": a list of results aliases it.
            if info is not None and (info.before_set & returned or "*" in info.after_set):
                for source in _nodes_of(value):
                    yield source, info.is_write


def _written_arguments(node: Node) -> Iterator[Node]:
    """Arguments that the node mutates or, for unknown targets, may mutate."""
    if isinstance(node.target, torch._ops.OpOverload):
        for argument, value in _bound_arguments(node):
            if argument.alias_info is not None and argument.alias_info.is_write:
                yield from _nodes_of(value)
    elif isinstance(node.target, torch._ops.HigherOrderOperator):
        if node.target.name() not in _FUNCTIONAL_CONTROL_FLOW:
            yield from node.all_input_nodes
    elif node.target is not operator.getitem and not _is_arithmetic(node):
        yield from node.all_input_nodes


def _is_arithmetic(node: Node) -> bool:
    return getattr(node.target, "__module__", None) in ("_operator", "math", "builtins")
