"""The nodes of a method's graph: a delegate's code does not tell what it was made of."""

import operator
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from pteron.exir._serialize.model_graph import GraphNode
from pteron.exir.emit.index_ranges import limits, passed
from pteron.exir.graph.delegate import executorch_call_delegate
from pteron.exir.graph.exported_program import (
    argument_name,
    input_specs_by_name,
    module_path,
    source_line,
)
from pteron.exir.graph.lowered_backend_module import lowered_module_of
from pteron.exir.graph.shape_bounds import ShapeBounds

_KINDS = {InputKind.USER_INPUT: "input", InputKind.BUFFER: "buffer", InputKind.PARAMETER: "weight"}


def model_graph(program: ExportedProgram) -> list[GraphNode]:
    """The graph of a method, with the operators inside its delegates."""
    graph = _Graph(ShapeBounds(program))
    graph.add(program, {}, -1)
    graph.add_ranges()
    return graph.nodes


class _Graph:
    def __init__(self, bounds: ShapeBounds) -> None:
        self.nodes: list[GraphNode] = []
        self._bounds = bounds
        self._constants: dict[str, int] = {}
        self._delegates = 0
        self._limits: list[tuple[int, int, int]] = []  # of nodes
        self._passed: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def add(self, program: ExportedProgram, given: Mapping[str, int], delegate: int) -> list[int]:
        """Adds a program's nodes; returns the index of each output, or -1 for one without a node.

        Args:
          program: a method, or what a delegate was made of.
          given: indices of the arguments of a delegate, by placeholder.
          delegate: its index; -1 for a method.
        """
        specs = input_specs_by_name(program)
        placeholders = {}
        for node in program.graph.find_nodes(op="placeholder"):
            spec = specs[node.name]
            if node.name in given:
                placeholders[node] = given[node.name]
            elif spec.kind is InputKind.USER_INPUT:
                placeholders[node] = self._node(argument_name(node.name), "input", [], node, -1)
            else:
                kind = _KINDS.get(spec.kind, "constant")
                placeholders[node] = self._constant(str(spec.target), kind, node)
        return self._add_graph(program.graph_module, placeholders, delegate)

    def _add_graph(self, module: GraphModule, index: dict[Node, int], delegate: int) -> list[int]:
        results: dict[Node, list[int]] = {}  # of delegates
        for node in module.graph.nodes:
            inputs = list(dict.fromkeys(index[n] for n in node.all_input_nodes if n in index))
            if node.op == "output":
                return [index.get(n, -1) for n in pytree.tree_leaves(node.args)]
            if node.op == "get_attr":
                value = getattr(module, node.target, None)
                if isinstance(value, torch.Tensor):
                    index[node] = self._constant(node.target, "constant", node)
            elif node.target is operator.getitem:
                source, position = node.args
                found = results[source][position] if source in results else index.get(source, -1)
                if found >= 0:
                    index[node] = found
            elif node.target is executorch_call_delegate:
                part = lowered_module_of(node).original_module
                specs = input_specs_by_name(part).items()
                taken = [name for name, spec in specs if spec.kind is InputKind.USER_INPUT]
                arguments = dict(zip(taken, node.args[1:], strict=True))
                given = {name: index[n] for name, n in arguments.items() if n in index}
                results[node] = self.add(part, given, self._delegates)
                self._delegates += 1
            elif node.op == "call_function":
                for branch in node.all_input_nodes:  # of cond, map, scan, while_loop
                    child = getattr(module, str(branch.target), None)
                    if branch.op == "get_attr" and isinstance(child, GraphModule):
                        own = {
                            n: self._node(f"{branch.target}.{n.name}", "input", [], n, delegate)
                            for n in child.graph.find_nodes(op="placeholder")
                        }
                        inputs += [i for i in self._add_graph(child, own, delegate) if i >= 0]
                target = node.target
                if not isinstance(target, torch._ops.OpOverload):  # of Python, for sizes
                    target = getattr(target, "__name__", target)
                op = str(target).removesuffix(".default")
                index[node] = self._node(node.name, op, inputs, node, delegate)
                for argument, least, greatest in limits(node, self._bounds):
                    if argument in index:
                        self._limits.append((index[argument], least, greatest))
                for argument, added in passed(node):
                    if argument in index:
                        self._passed[index[node]].append((index[argument], added))
        return []

    def add_ranges(self) -> None:
        """Ranges of the inputs, from those of all nodes that use their values."""
        ranges: dict[int, tuple[int, int]] = {}

        def narrow(node: int, least: int, greatest: int) -> None:
            old = ranges.get(node, (0, greatest))
            ranges[node] = max(least, old[0]), min(greatest, old[1])

        for limit in self._limits:
            narrow(*limit)
        for node in reversed(range(len(self.nodes))):
            if node not in ranges:
                continue
            least, greatest = ranges[node]
            for source, added in self._passed[node]:
                narrow(source, least - added, greatest - added)
            if self.nodes[node].op == "input" and least <= greatest:
                self.nodes[node] = replace(self.nodes[node], range=[least, greatest])

    def _constant(self, name: str, kind: str, node: Node) -> int:
        if name not in self._constants:
            self._constants[name] = self._node(name, kind, [], node, -1)
        return self._constants[name]

    def _node(self, name: str, op: str, inputs: list[int], node: Node, delegate: int) -> int:
        values = [
            v for v in pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)
        ]
        self.nodes.append(
            GraphNode(
                name,
                op,
                inputs,
                [_described(value) for value in values],
                sum(self._nbytes(value, name) for value in values),
                source_line(node),
                module_path(node),
                delegate,
            )
        )
        return len(self.nodes) - 1

    def _nbytes(self, value: torch.Tensor, name: str) -> int:
        """At the upper bounds of its sizes; 0 if one has none."""
        nbytes = value.element_size()
        for size in self._bounds.sizes(value, name):
            nbytes *= size
        return nbytes


def _described(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
