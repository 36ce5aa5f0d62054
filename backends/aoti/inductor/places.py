"""Source locations of nodes, as C++ arguments of a failed check."""

import json
from collections.abc import Iterable

import torch
from torch.fx import Node

from pteron.exir.graph.exported_program import source_line


def place(nodes: Iterable[Node]) -> str:
    """Operator of the first node, and file and line of the first that has them."""
    nodes = list(nodes)
    target = nodes[0].target if nodes else "model"
    is_named = isinstance(target, torch._ops.OpOverload | str)
    name = target if is_named else getattr(target, "__name__", "model")
    file, _, line = next(filter(None, map(source_line, nodes)), "").partition(":")
    return f"{json.dumps(str(name))}, {json.dumps(file or 'model')}, {line or 0}"


def place_in_kernel(operators: Iterable[str]) -> str:
    """The same for the current kernel; the operator's name contains one of `operators`."""
    from torch._inductor.virtualized import V

    node = V.kernel.current_node
    origins: list[Node] = []
    if node is not None and node.node is not None:
        origins = sorted(node.node.get_origins(), key=str)
    named = [n for n in origins if any(part in str(n.target) for part in operators)]
    return place((*named, *origins))
