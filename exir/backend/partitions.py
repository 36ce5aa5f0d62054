"""From tags to an order of partitions.

Nodes of one tag become one call, so all tags together must leave the graph acyclic when each is
contracted to one node. `plan_partitions` checks that and returns a topological order. First it
copies the shape arithmetic that each partition uses into the partition, so that scalars (SymInts
and others) never cross partitions.
"""

import functools
import graphlib
import heapq
import math
import operator
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node

from pteron.exir.backend.partitioner import DELEGATION_TAG
from pteron.exir.graph import kernels
from pteron.exir.graph.exported_program import (
    CONSTANT_KINDS,
    input_specs_by_name,
    mutation_targets,
    source_line,
)

_QUERIES = frozenset(
    {
        torch.ops.aten._local_scalar_dense.default,
        torch.ops.aten.sym_size.int,
        torch.ops.aten.sym_stride.int,
        torch.ops.aten.sym_numel.default,
        torch.ops.aten.sym_storage_offset.default,
    }
)
_ARITHMETIC_MODULES = frozenset({"_operator", "math", "torch", "builtins", operator.__name__})


@dataclass
class Partition:
    """Nodes that become one delegate call.

    Attributes:
      tag: the partitioner's tag.
      nodes: in graph order.
      constants: placeholders of constants that it owns, in graph order.
    """

    tag: str
    nodes: list[Node] = field(default_factory=list)
    constants: list[Node] = field(default_factory=list)


Step: TypeAlias = Node | Partition
"""A node or a partition of the resulting program."""


def is_shape_arithmetic(node: Node) -> bool:
    """Whether a node computes a scalar from sizes, scalars or a tensor's item; it may be copied."""
    if node.op != "call_function":
        return False
    if not isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool | int):
        return False
    if node.target in _QUERIES:
        return True
    return node.target is not operator.getitem and (
        getattr(node.target, "__module__", None) in _ARITHMETIC_MODULES
        or getattr(math, getattr(node.target, "__name__", ""), None) is node.target
    )


def _tag(node: Node) -> str | None:
    return node.meta.get(DELEGATION_TAG)


def _copy_arithmetic(
    node: Node, tag: str | None, copies: dict[tuple[Node, str | None], Node]
) -> Node:
    """A copy of shape arithmetic for one partition (None: for nodes outside partitions)."""
    if not is_shape_arithmetic(node) or _tag(node) == tag:
        return node
    key = (node, tag)
    if key not in copies:
        with node.graph.inserting_after(node):
            copy = node.graph.node_copy(node, lambda arg: _copy_arithmetic(arg, tag, copies))
        copy.meta = {k: v for k, v in node.meta.items() if k != DELEGATION_TAG}
        if tag is not None:
            copy.meta[DELEGATION_TAG] = tag
        copies[key] = copy
    return copies[key]


def _read_sizes_of_inputs(graph: Graph) -> None:
    """Rewrites shape queries to read inputs of the method that have the same size, except in checks
    that they do."""
    sizes: dict[object, tuple[Node, int]] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    sizes.setdefault(size.node.expr, (node, dim))
        elif kernels.ON_HOST in node.meta:
            continue
        elif node.target is torch.ops.aten.sym_size.int and isinstance(value, torch.SymInt):
            node.args = sizes.get(value.node.expr, node.args)


def separate_shape_arithmetic(graph: Graph) -> None:
    """Copies shape arithmetic per partition, and for nodes outside partitions."""
    _read_sizes_of_inputs(graph)
    copies: dict[tuple[Node, str | None], Node] = {}
    for node in list(graph.nodes):
        if node.op in ("call_function", "output"):
            tag = _tag(node)
            copy = functools.partial(_copy_arithmetic, tag=tag, copies=copies)
            node.args = torch.fx.map_arg(node.args, copy)
            node.kwargs = torch.fx.map_arg(node.kwargs, copy)
    for node in reversed(graph.nodes):
        if is_shape_arithmetic(node) and not node.users:
            graph.erase_node(node)


def plan_partitions(program: ExportedProgram) -> list[Step]:
    """Sorts the calls of a tagged program topologically, each tag as one step.

    Keeps the graph's order where possible. Raises ValueError if a user input is tagged, if a
    constant that may not be copied is used by several partitions, or if partitions depend on each
    other in a cycle (naming the nodes of it).
    """
    graph = program.graph
    separate_shape_arithmetic(graph)
    partitions: dict[str, Partition] = {}
    for node in graph.nodes:
        tag = _tag(node)
        if tag is not None and node.op == "call_function":
            partitions.setdefault(tag, Partition(tag)).nodes.append(node)
    _assign_constants(program, partitions)
    return _order(graph, partitions)


def _assign_constants(program: ExportedProgram, partitions: dict[str, Partition]) -> None:
    mutated = {name for _, name in mutation_targets(program)}
    specs = input_specs_by_name(program)
    for node in program.graph.nodes:
        if node.op != "placeholder" or _tag(node) is None or node.name in mutated:
            continue
        spec = specs[node.name]
        if spec.kind not in CONSTANT_KINDS:
            if spec.kind is InputKind.USER_INPUT:
                raise ValueError(
                    f"input {node.name} of the program has tag {_tag(node)!r}. Inputs belong to the"
                    f" caller: a partitioner tags calls, and constants by tag_constant_data."
                )
            continue
        users = {_tag(user) for user in node.users if user.op == "call_function"}
        if node.meta.get("no_copy") and users != {_tag(node)}:
            raise ValueError(
                f"constant {spec.target} is marked no_copy and has tag {_tag(node)!r}, but is used"
                f" by {sorted(str(tag) for tag in users)}. Take all its users into one partition,"
                f" or leave it outside (untagged), or drop no_copy."
            )
        for tag in users:
            if tag in partitions:
                partitions[tag].constants.append(node)


def _order(graph: Graph, partitions: dict[str, Partition]) -> list[Step]:
    """A topological order in which each partition is one step, nearest to the graph's own."""
    position = {node: index for index, node in enumerate(graph.nodes)}
    steps: list[Step] = []
    step_of: dict[Node, int] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        tag = _tag(node)
        if tag is None:
            step_of[node] = len(steps)
            steps.append(node)
        elif partitions[tag].nodes[0] is node:
            for member in partitions[tag].nodes:
                step_of[member] = len(steps)
            steps.append(partitions[tag])

    sorter: graphlib.TopologicalSorter[int] = graphlib.TopologicalSorter()
    for node, step in step_of.items():
        needed = {step_of[source] for source in node.all_input_nodes if source in step_of}
        sorter.add(step, *needed - {step})
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        raise ValueError(_describe_cycle(steps, error.args[1])) from None

    # A partition has the priority of its last node, so that its inputs come first.
    def priority(index: int) -> tuple[int, int]:
        step = steps[index]
        return position[step.nodes[-1] if isinstance(step, Partition) else step], index

    ready: list[tuple[int, int]] = []
    order: list[Step] = []
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, priority(index))
        _, index = heapq.heappop(ready)
        order.append(steps[index])
        sorter.done(index)
    return order


def _describe_cycle(steps: list[Step], cycle: list[int]) -> str:
    """`cycle`: positions of steps, of which each needs the one before it."""

    def name(index: int) -> str:
        step = steps[index]
        if isinstance(step, Partition):
            return f"partition {step.tag!r}"
        line = source_line(step)
        return f"{step.name} ({step.target}{', ' + line if line else ''})"

    def link(source: int, target: int) -> str:
        step = steps[source]
        members = step.nodes if isinstance(step, Partition) else [step]
        goal = steps[target]
        users = set(goal.nodes if isinstance(goal, Partition) else [goal])
        made, used = next((m, u) for m in members for u in m.users if u in users)
        return f"  {name(target)} needs {name(source)}: {used.name} uses {made.name}"

    lines = [link(a, b) for a, b in zip(cycle, cycle[1:], strict=False)]
    return (
        "partitions depend on each other in a cycle:\n"
        + "\n".join(lines)
        + "\nNodes of one tag become one call, so no path between two of them may lead through a"
        " node outside. Give the parts before and after it tags of their own"
        " (torch's CapabilityBasedPartitioner does)."
    )
