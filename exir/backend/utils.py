"""Helpers for partitioners: nodes not lowered yet, and tagging of constants.

nodes = get_non_lowered_nodes(exported_program.graph)
...                                # tag some of them
tag_constant_data(exported_program)
"""

import operator
from collections.abc import Iterable

from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node, map_arg
from torch.utils import _pytree as pytree

from pteron.exir.backend.partitioner import DELEGATION_TAG
from pteron.exir.graph.delegate import executorch_call_delegate
from pteron.exir.graph.exported_program import CONSTANT_KINDS, input_specs_by_name, mutation_targets


def is_delegate_call(node: object) -> bool:
    """Whether a node calls a delegate."""
    return (
        isinstance(node, Node)
        and node.op == "call_function"
        and node.target is executorch_call_delegate
    )


def get_delegates(graph: Graph) -> list[Node]:
    """The `get_attr` nodes of lowered modules, in graph order."""
    found = dict.fromkeys(n.args[0] for n in graph.nodes if is_delegate_call(n))
    return [node for node in found if isinstance(node, Node)]


def get_non_lowered_nodes(graph: Graph) -> list[Node]:
    """Calls not lowered yet: all except delegate calls and getitems on them."""
    return [
        node
        for node in graph.nodes
        if node.op == "call_function"
        and not is_delegate_call(node)
        and not (node.target is operator.getitem and is_delegate_call(node.args[0]))
    ]


def is_shape_dynamic(node: Node) -> bool:
    """Whether a dimension of the node's tensor is symbolic."""
    shape = getattr(node.meta.get("val"), "shape", ())
    return any(not isinstance(size, int) for size in shape)


def _user_tags(node: Node) -> set[str]:
    tags = (user.meta.get(DELEGATION_TAG) for user in node.users if user.op != "output")
    return {tag for tag in tags if tag is not None}


def _tag_placeholders(names: Iterable[str], program: ExportedProgram) -> None:
    wanted = set(names)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in wanted:
            tags = _user_tags(node)
            if tags:
                node.meta[DELEGATION_TAG] = min(tags)


def tag_constant_data(edge_program: ExportedProgram) -> None:
    """Tags parameters, constants and unmutated buffers with the tag of their users.

    With several tags it gets the smallest; the other partitions own it too (the bytes are shared in
    the file). Constants without tagged users are not tagged.
    """
    mutated = {name for _, name in mutation_targets(edge_program)}
    specs = input_specs_by_name(edge_program)
    _tag_placeholders(
        (n for n, s in specs.items() if s.kind in CONSTANT_KINDS and n not in mutated),
        edge_program,
    )


def tag_mutated_buffer(edge_program: ExportedProgram) -> None:
    """Tags mutated buffers with the tag of their users.

    The tag names the partition that uses them. They still belong to the program, as state that
    methods share; the delegate gets them as inputs and writes them in place.
    """
    _tag_placeholders((name for _, name in mutation_targets(edge_program)), edge_program)


def _equal_arguments(left: Node, right: Node, pairs: dict[Node, Node]) -> bool:
    """`pairs`: nodes of the left graph to those of the right one."""
    mapped = map_arg((left.args, left.kwargs), lambda node: pairs.get(node, node))
    leaves, nesting = pytree.tree_flatten(mapped)
    others, other_nesting = pytree.tree_flatten((right.args, right.kwargs))
    return nesting == other_nesting and all(
        type(a) is type(b) and (a is b or a == b) for a, b in zip(leaves, others, strict=True)
    )


def find_difference(left: Graph, right: Graph) -> str | None:
    """The first difference of two graphs as text; None if they differ only in names and
    metadata."""
    left_nodes, right_nodes = list(left.nodes), list(right.nodes)
    pairs: dict[Node, Node] = {}
    for a, b in zip(left_nodes, right_nodes, strict=False):
        if a.op != b.op or (a.op != "placeholder" and a.target != b.target):
            return f"{a.name} ({a.target}) has become {b.name} ({b.target})"
        if not _equal_arguments(a, b, pairs):
            return f"arguments of {a.name} ({a.target}) have changed"
        pairs[a] = b
    if len(left_nodes) != len(right_nodes):
        return f"it had {len(left_nodes)} nodes and now has {len(right_nodes)}"
    return None


def is_identical_graph(graph_left: GraphModule, graph_right: GraphModule) -> bool:
    """Whether two graphs, with their branches, differ only in names and metadata."""
    if find_difference(graph_left.graph, graph_right.graph) is not None:
        return False
    left = {n: m for n, m in graph_left.named_children() if isinstance(m, GraphModule)}
    right = {n: m for n, m in graph_right.named_children() if isinstance(m, GraphModule)}
    return left.keys() == right.keys() and all(is_identical_graph(left[n], right[n]) for n in left)
