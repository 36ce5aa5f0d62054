"""Calls without a delegate or runtime kernel."""

import operator
from collections import defaultdict
from collections.abc import Mapping

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.exir.backend.backend_api import MethodProgramsPartitionerSpec, to_backend
from pteron.exir.backend.leftovers import leftover_partitioner
from pteron.exir.backend.partitioner import LEFT_OUT_REASON
from pteron.exir.backend.utils import get_non_lowered_nodes
from pteron.exir.graph import kernels
from pteron.exir.graph.exported_program import source_line
from pteron.exir.graph.lowered_backend_module import lowered_modules

_SHOWN = 3


class UnsupportedOperatorsError(RuntimeError):
    """No backend and no runtime kernel supports some operators."""


def pending_calls(program: ExportedProgram) -> list[Node]:
    """Calls that must still be compiled, in graph order."""
    return [
        node
        for node in get_non_lowered_nodes(program.graph)
        if node.target is not operator.getitem and not kernels.is_executable(node)
    ]


def lower_leftovers(programs: Mapping[str, ExportedProgram]) -> dict[str, ExportedProgram]:
    """The programs, with pending calls lowered by the leftover backend.

    Raises:
      UnsupportedOperatorsError: there is no such backend, or it does not support some calls. All
          are listed.
    """
    left = [method for method, program in programs.items() if pending_calls(program)]
    modules = {
        method: [module for _, module in lowered_modules(program.graph_module)]
        for method, program in programs.items()
    }
    chosen = {}
    for method in left:
        others = [module for other in modules if other != method for module in modules[other]]
        partitioner = leftover_partitioner([*modules[method], *others])
        if partitioner is None:
            raise UnsupportedOperatorsError(
                "no partitioner takes these operators:\n"
                + _table(programs)
                + "\nThe CPU backend compiles what others leave, and is not among what this program"
                " depends on.\ntry:  adding @pteron//backends/cpu to the deps of the Bazel target;"
                "\n      a partitioner whose backend takes them."
            )
        chosen[method] = partitioner
    if not left:
        return dict(programs)
    lowered = to_backend(MethodProgramsPartitionerSpec(programs, chosen))
    if any(pending_calls(program) for program in lowered.values()):
        raise UnsupportedOperatorsError(
            "no partitioner takes these operators, and the backend that compiles what is left"
            " does not support them:\n"
            + _table(lowered)
            + "\ntry:  a partitioner whose backend takes them (to_edge_transform_and_lower(...,"
            " partitioner=[...]), one more after the others);\n"
            "      a rewrite of the named lines in terms of other operators."
        )
    return dict(lowered)


def _name(node: Node) -> str:
    target = node.target
    return str(
        getattr(target, "__name__", target) if not isinstance(target, OpOverload) else target
    )


def _describe(node: Node, method: str) -> str:
    """Node, method, source line, and the partitioner's reason, as far as known."""
    parts = [f"%{node.name} in {method!r}", source_line(node)]
    reason = node.meta.get(LEFT_OUT_REASON)
    return ", ".join(part for part in parts if part) + (f" ({reason})" if reason else "")


def _table(programs: Mapping[str, ExportedProgram]) -> str:
    """A line per pending operator: count and source locations."""
    calls: defaultdict[str, list[str]] = defaultdict(list)
    for method, program in programs.items():
        for node in pending_calls(program):
            calls[_name(node)].append(_describe(node, method))
    width = max(len(op) for op in calls)
    lines = []
    for op in sorted(calls):
        shown = "; ".join(calls[op][:_SHOWN])
        more = len(calls[op]) - _SHOWN
        lines.append(
            f"  {op:<{width}}  x{len(calls[op])}  {shown}" + (f"; {more} more" if more > 0 else "")
        )
    return "\n".join(lines)
