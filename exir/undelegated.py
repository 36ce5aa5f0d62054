"""Calls that neither a delegate nor a kernel of the runtime does."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.exir import kernels
from pteron.exir._program import mutation_targets, source_line
from pteron.exir.backend.partitioner import LEFT_OUT_REASON
from pteron.exir.backend.utils import get_non_lowered_nodes
from pteron.exir.passes.remove_asserts import is_assertion
from pteron.exir.passes.resolve_mutations import ResolveMutations

__all__ = ["UnsupportedOperatorsError", "check_executable"]

_SHOWN = 3


class UnsupportedOperatorsError(RuntimeError):
    """A program calls operators that nothing in the runtime does."""


def _name(node: Node) -> str:
    target = node.target
    return str(
        getattr(target, "__name__", target) if not isinstance(target, OpOverload) else target
    )


def _describe(node: Node, method: str) -> str:
    """Node, method, source line, and why the partitioner left it, as far as they are known."""
    parts = [f"%{node.name} in {method!r}", source_line(node)]
    reason = node.meta.get(LEFT_OUT_REASON)
    return ", ".join(part for part in parts if part) + (f" ({reason})" if reason else "")


def check_executable(programs: Mapping[str, ExportedProgram]) -> None:
    """Raises UnsupportedOperatorsError naming every call that nothing does, and its line."""
    calls: defaultdict[str, list[str]] = defaultdict(list)
    for method, program in programs.items():
        resolved = ResolveMutations()(program)
        for node in get_non_lowered_nodes(resolved.graph):
            if node.target is operator.getitem or is_assertion(node):
                continue
            if not kernels.is_executable(node):
                calls[_name(node)].append(_describe(node, method))
        if not kernels.has_kernel(kernels.COPY):
            for _, name in mutation_targets(resolved):
                calls[f"{kernels.COPY} (writing state back)"].append(f"%{name} in {method!r}")
    if not calls:
        return
    width = max(len(op) for op in calls)
    lines = []
    for op in sorted(calls):
        shown = "; ".join(calls[op][:_SHOWN])
        more = len(calls[op]) - _SHOWN
        lines.append(
            f"  {op:<{width}}  x{len(calls[op])}  {shown}" + (f"; {more} more" if more > 0 else "")
        )
    raise UnsupportedOperatorsError(
        "no delegate takes these operators, and the runtime has no kernel for them:\n"
        + "\n".join(lines)
        + "\ntry:  a partitioner whose backend takes them (to_edge_transform_and_lower(...,"
        " partitioner=[...]), one more after the others);\n"
        "      not leaving them out (options of the partitioner such as leave_out);\n"
        "      a rewrite of the named lines in terms of other operators."
    )
