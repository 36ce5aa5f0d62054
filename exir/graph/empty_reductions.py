"""Requires at least one element in dynamic dimensions that min and max reduce.

    x.amax(0)        # x has 0 to 9 rows: the range becomes 1 to 9
    x[mask].amax()   # _assert_scalar(u0 >= 1)

Eager raises an error for an empty dimension; sum and mean, in contrast, have a value.
"""

import math
import operator
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges

from pteron.exir.graph.exported_program import copy_program
from pteron.exir.graph.shape_bounds import affine

_aten = torch.ops.aten
_MIN_MAX = frozenset(
    {_aten.amax, _aten.amin, _aten.max, _aten.min, _aten.argmax, _aten.argmin, _aten.aminmax}
)


def require_elements(program: ExportedProgram) -> ExportedProgram:
    """The program with bounds and assertions; itself if it needs none."""
    if not any(True for _ in _symbolic_sizes(program)):
        return program
    program = copy_program(program)
    for node, dim, size in list(_symbolic_sizes(program)):
        _narrow(program, size.node.expr)
        if any(symbol_is_type(s, SymT.UNBACKED_INT) for s in size.node.expr.free_symbols):
            _assert_elements(node, dim, size)
    program.graph_module.recompile()
    return program


def _symbolic_sizes(program: ExportedProgram) -> Iterator[tuple[Node, int, torch.SymInt]]:
    """min and max calls with each dynamic dimension that they reduce, and its size."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            for dim in _reduced_dims(node):
                size = node.args[0].meta["val"].shape[dim]
                if isinstance(size, torch.SymInt) and not size.node.expr.is_number:
                    yield node, dim, size


def _reduced_dims(node: Node) -> list[int]:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return []
    names = [argument.name for argument in node.target._schema.arguments]
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    packet = node.target.overloadpacket
    is_norm = packet is _aten.linalg_vector_norm and abs(given.get("ord", 2)) == math.inf
    if not (packet in _MIN_MAX and "other" not in names) and not is_norm:
        return []
    dims, rank = given.get("dim"), node.args[0].meta["val"].dim()  # type: ignore[union-attr]
    chosen = [dims] if isinstance(dims, int) else dims or range(rank)
    return [dim % rank for dim in chosen] if rank else []


def _narrow(program: ExportedProgram, size: sympy.Expr) -> None:
    """Raises the lower bound of the size's symbol so that the size is at least 1."""
    parts = affine(size)
    if parts is None or parts[1] <= 0:
        return
    symbol, scale, offset = parts
    least = -((offset - 1) // scale)
    for expression, bounds in list(program.range_constraints.items()):
        other = affine(expression)
        if other is not None and other[0] == symbol and other[1] > 0:
            lower = max(bounds.lower, other[1] * least + other[2])
            if lower <= bounds.upper:
                program.range_constraints[expression] = ValueRanges(lower, bounds.upper)


def _assert_elements(node: Node, dim: int, size: torch.SymInt) -> None:
    source: Any = node.args[0]
    with node.graph.inserting_before(node):
        length = node.graph.call_function(_aten.sym_size.int, (source, dim))
        enough = node.graph.call_function(operator.ge, (length, 1))
        message = f"{node.target} of no elements"
        check = node.graph.call_function(_aten._assert_scalar.default, (enough, message))
    length.meta["val"], enough.meta["val"], check.meta["val"] = size, size >= 1, None
    for made in (length, enough, check):
        if "stack_trace" in node.meta:
            made.meta["stack_trace"] = node.meta["stack_trace"]
