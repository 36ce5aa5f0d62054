"""Calls that neither a delegate nor a kernel of the runtime does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from exir import kernels
from exir._program import mutation_targets, source_line
from exir.backend.utils import get_non_lowered_nodes
from exir.passes.remove_asserts import is_assertion
from exir.passes.resolve_mutations import ResolveMutations

__all__ = ["UnsupportedOperatorsError", "check_executable", "is_executable"]

_COPY = "aten::copy_"
_SHOWN = 3


class UnsupportedOperatorsError(RuntimeError):
    """A program calls operators that nothing in the runtime does."""


def is_executable(node: Node) -> bool:
    """Whether the runtime has a kernel for a call."""
    if not isinstance(node.target, OpOverload):
        return False
    out = kernels.out_variant(node.target)
    return out is not None and kernels.has_kernel(kernels.qualified_name(out))


def check_executable(programs: Mapping[str, ExportedProgram]) -> None:
    """Raises UnsupportedOperatorsError naming every call that nothing does, and its line."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for method, program in programs.items():
        resolved = ResolveMutations()(program)
        for node in get_non_lowered_nodes(resolved.graph):
            if not is_assertion(node) and not is_executable(node):
                line = source_line(node)
                where = f"%{node.name} in {method!r}" + (f", {line}" if line else "")
                places[str(node.target)].append(where)
        if not kernels.has_kernel(_COPY):
            for _, name in mutation_targets(resolved):
                places[f"{_COPY} (writing state back)"].append(f"%{name} in {method!r}")
    if not places:
        return
    width = max(len(op) for op in places)
    lines = []
    for op in sorted(places):
        shown = "; ".join(places[op][:_SHOWN])
        more = len(places[op]) - _SHOWN
        lines.append(
            f"  {op:<{width}}  x{len(places[op])}  {shown}" + (f"; {more} more" if more > 0 else "")
        )
    raise UnsupportedOperatorsError(
        "no delegate takes these operators, and the runtime has no kernel for them:\n"
        + "\n".join(lines)
        + "\ntry:  a partitioner whose backend takes them (to_edge_transform_and_lower(...,"
        " partitioner=[...]), one more after the others);\n"
        "      not leaving them out (options of the partitioner such as leave_out);\n"
        "      a rewrite of the named lines in terms of other operators."
    )
