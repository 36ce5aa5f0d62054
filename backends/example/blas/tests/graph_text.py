"""Graphs as text, so that a test can show one before and one after."""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.fx import Node

from pteron.exir.backend.partitioner import DELEGATION_TAG
from pteron.exir.backend.utils import is_delegate_call


def graph_text(program: ExportedProgram) -> str:
    """One line for each call: name, operator, arguments; a delegate as `Backend{operators}`.

    A tag stands behind the call that it is on, after a `#`.
    """
    lines = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if is_delegate_call(node):
            module = getattr(program.graph_module, node.args[0].target)
            calls = " ".join(_operator(call) for call in module.nodes())
            operator, arguments = f"{module.backend_id}{{{calls}}}", node.args[1:]
        else:
            operator, arguments = _operator(node), node.args
        names = ", ".join(str(argument) for argument in arguments)
        tag = node.meta.get(DELEGATION_TAG)
        lines.append(f"{node.name} = {operator}({names})" + (f"  # {tag}" if tag else ""))
    return "\n".join(lines)


def _operator(node: Node) -> str:
    return getattr(node.target, "__name__", str(node.target))
