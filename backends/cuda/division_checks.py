"""Adds assertions for integer division by 0 and overflow on a GPU, matching eager on the CPU.

    a // b    ==>    all(b != 0 & (b != -1 | a != least)), asserted on the host at the end

A GPU divides by 0 without a trap. The condition is computed with the division and is an additional
output of the delegate, which the host reads once per run. Constant divisors, and those that
export's bounds prove valid, cost nothing. Divisions in branches and loops are not checked.
"""

import functools
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._sympy.value_ranges import bound_sympy

from pteron.exir import kernels
from pteron.exir._program import source_line
from pteron.exir.decompositions import insert_trace

_aten = torch.ops.aten
_QUOTIENTS = frozenset({_aten.div, _aten.floor_divide})
_REMAINDERS = frozenset({_aten.remainder, _aten.fmod})
_INTEGERS = frozenset(
    {torch.int8, torch.int16, torch.int32, torch.int64}
    | {torch.uint8, torch.uint16, torch.uint32, torch.uint64}
)
_SHOWN = 3


def check_divisions(graph_module: GraphModule) -> None:
    """A pass; see the module's docstring."""
    graph = graph_module.graph
    divisions = [node for node in graph.nodes if _may_fail(node)]
    conditions = [_condition(node) for node in divisions]
    if not conditions:
        return
    end = graph.output_node()
    if len(conditions) > 1:
        all_hold = insert_trace(end, lambda *c: functools.reduce(torch.logical_and, c), conditions)
        assert isinstance(all_hold, Node)
        conditions = [all_hold]
    with graph.inserting_before(end):
        check = graph.call_function(_aten._assert_async.msg, (conditions[0], _message(divisions)))
    check.meta = {kernels.ON_HOST: True, "val": None}
    graph_module.recompile()


def _may_fail(node: Node) -> bool:
    packet = getattr(node.target, "overloadpacket", None)
    if packet not in _QUOTIENTS and packet not in _REMAINDERS:
        return False
    if node.meta["val"].dtype not in _INTEGERS:
        return False
    divisor: Any = node.args[1]
    if not isinstance(divisor, Node):
        return divisor == 0 or (divisor == -1 and packet in _QUOTIENTS)
    value = divisor.meta["val"]
    if isinstance(value, torch.SymInt):
        ranges = value.node.shape_env.var_to_range
        return not bound_sympy(value.node.expr, ranges).lower > 0
    return True


def _condition(node: Node) -> Node:
    """Whether all elements of a division are defined."""
    dtype, device = node.meta["val"].dtype, node.meta["val"].device
    info = torch.iinfo(dtype)
    may_overflow = info.min < 0 and getattr(node.target, "overloadpacket", None) in _QUOTIENTS
    given = list(node.args[:2])
    inputs = [value for value in given if isinstance(value, Node)]

    def holds(*values: Any) -> torch.Tensor:
        left = iter(values)
        a, b = (
            _tensor(next(left) if isinstance(value, Node) else value, dtype, device)
            for value in given
        )
        result = b != 0
        if may_overflow:
            result = result & ((b != -1) | (a != info.min))
        return result.all()

    made = insert_trace(node.next, holds, inputs)
    assert isinstance(made, Node)
    return made


def _tensor(value: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.to(dtype)
    return torch.full((), value, dtype=dtype, device=device)


def _message(divisions: list[Node]) -> str:
    places = dict.fromkeys(f"{node.target}, {source_line(node) or 'model'}" for node in divisions)
    more = len(places) - _SHOWN
    shown = "; ".join(list(places)[:_SHOWN]) + (f"; {more} more" if more > 0 else "")
    return f"an integer is divided by 0, or the least number by -1: {shown}"
