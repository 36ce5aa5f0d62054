"""Adds assertions for integer division by 0 and overflow on a GPU, matching eager on the CPU.

    a // b    ==>    all(b != 0 & (b != -1 | a != least)), asserted on the host at the end

A GPU divides by 0 without a trap. The condition is computed with the division and is an additional
output of the delegate, which the host reads once per run. Constant divisors, and those that
export's bounds prove valid, cost nothing. Divisions in branches and loops are not checked.
"""

import copy
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._sympy.value_ranges import bound_sympy

from pteron.exir.graph import kernels
from pteron.exir.graph.exported_program import source_line
from pteron.exir.operators.decompositions import insert_trace

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
    divisions: list[Node] = []
    conditions = _conditions(graph_module, divisions)
    if not conditions:
        return
    graph = graph_module.graph
    end = graph.output_node()
    condition = _all_hold(end, conditions)
    with graph.inserting_before(end):
        check = graph.call_function(_aten._assert_async.msg, (condition, _message(divisions)))
    check.meta = {kernels.ON_HOST: True, "val": None}
    graph_module.recompile()


def _conditions(owner: GraphModule, divisions: list[Node]) -> list[Node]:
    """Adds to a graph the conditions of its divisions, also of those in branches and loops.

    Appends the divisions to `divisions`.
    """
    conditions: list[Node] = []
    for node in list(owner.graph.nodes):
        if node.op != "call_function":
            continue
        if _may_fail(node):
            divisions.append(node)
            conditions.append(_condition(node))
        elif node.target in _HIGHER_ORDER:
            condition = _HIGHER_ORDER[node.target](owner, node, divisions)
            conditions += [condition] if condition is not None else []
    return conditions


def _condition_of_branches(owner: GraphModule, call: Node, divisions: list[Node]) -> Node | None:
    """Of cond, map and scan: each function returns its condition last; map and scan stack it."""
    functions = [_function(owner, arg) for arg in call.args if _is_function(owner, arg)]
    found = [_conditions(function, divisions) for function in functions]
    sample = next((conditions[0] for conditions in found if conditions), None)
    if sample is None:
        return None
    for function, conditions in zip(functions, found, strict=True):
        end = function.graph.output_node()
        _return_also(function, _all_hold(end, conditions) if conditions else _true(end, sample))
    is_stacked = call.target is not torch.ops.higher_order.cond
    value = sample.meta["val"]
    if is_stacked:
        (first, *_) = _as_tuple(call.args[1 if call.target is _MAP else 2])
        value = value.new_ones(first.meta["val"].shape[:1])
    result = _new_output(call, value, len(call.meta["val"]))
    return _all_hold(result.next, [result]) if is_stacked else result


def _condition_of_loop(owner: GraphModule, call: Node, divisions: list[Node]) -> Node | None:
    """Of while_loop: the condition is carried. That of the divisions which decide whether to go on
    is computed before the loop and at the end of its body, for the values that decide next."""
    decides, body = (_function(owner, arg) for arg in call.args[:2])
    carried, additional = (_as_tuple(arg) for arg in call.args[2:4])
    test = copy.copy(decides)
    test.graph = copy.deepcopy(decides.graph)
    in_test = _conditions(test, divisions)
    in_body = _conditions(body, divisions)
    sample = next(iter([*in_test, *in_body]), None)
    if sample is None:
        return None
    if in_test:
        end = test.graph.output_node()
        end.args = (_all_hold(end, in_test),)
        before = [_inline(call, test, [*carried, *additional])]
        end = body.graph.output_node()
        given = body.graph.find_nodes(op="placeholder")[len(carried) :]
        in_body.append(_inline(end, test, [*_as_tuple(end.args[0]), *given]))
    start = _all_hold(call, before) if in_test else _true(call, sample)
    for function in (decides, body):
        inputs = function.graph.find_nodes(op="placeholder")
        with function.graph.inserting_after(inputs[len(carried) - 1]):
            flag = function.graph.placeholder("divisions_hold")
        flag.meta["val"] = sample.meta["val"]
        if function is decides:
            function.recompile()
        else:
            _return_also(function, _all_hold(function.graph.output_node(), [flag, *in_body]))
    call.args = (*call.args[:2], (*carried, start), *call.args[3:])
    return _new_output(call, sample.meta["val"], len(carried))


_MAP = torch.ops.higher_order.map_impl
_HIGHER_ORDER: dict[Any, Callable[[GraphModule, Node, list[Node]], Node | None]] = {
    torch.ops.higher_order.cond: _condition_of_branches,
    _MAP: _condition_of_branches,
    torch.ops.higher_order.scan: _condition_of_branches,
    torch.ops.higher_order.while_loop: _condition_of_loop,
}


def _is_function(owner: GraphModule, argument: Any) -> bool:
    is_attribute = isinstance(argument, Node) and argument.op == "get_attr"
    return is_attribute and isinstance(_function(owner, argument), GraphModule)


def _function(owner: GraphModule, argument: Any) -> Any:
    return operator.attrgetter(argument.target)(owner)


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _all_hold(before: Node, conditions: Sequence[Node]) -> Node:
    graph = before.graph
    with graph.inserting_before(before):

        def call(operator: Any, *inputs: Node) -> Node:
            made = graph.call_function(operator, inputs)
            made.meta["val"] = inputs[0].meta["val"].new_ones(())
            return made

        scalars = [
            x if x.meta["val"].dim() == 0 else call(_aten.all.default, x) for x in conditions
        ]
        return functools.reduce(functools.partial(call, _aten.logical_and.default), scalars)


def _true(before: Node, sample: Node) -> Node:
    value = sample.meta["val"]
    kwargs = {"dtype": torch.bool, "device": value.device, "pin_memory": False}
    with before.graph.inserting_before(before):
        made = before.graph.call_function(_aten.full.default, ([], True), kwargs)
    made.meta["val"] = value
    return made


def _return_also(function: GraphModule, value: Node) -> None:
    end = function.graph.output_node()
    end.args = ((*_as_tuple(end.args[0]), value),)
    function.recompile()


def _new_output(call: Node, value: Any, position: int) -> Node:
    call.meta["val"] = (*call.meta["val"], value)
    with call.graph.inserting_after(call):
        result = call.graph.call_function(operator.getitem, (call, position))
    result.meta["val"] = value
    return result


def _inline(before: Node, function: GraphModule, arguments: Sequence[Any]) -> Node:
    """The first output of `function`, computed before a node."""
    inputs = function.graph.find_nodes(op="placeholder")
    copies: dict[Node, Any] = dict(zip(inputs, arguments, strict=True))
    with before.graph.inserting_before(before):
        for attribute in function.graph.find_nodes(op="get_attr"):
            name = f"{before.name}_{attribute.name}"
            setattr(before.graph.owning_module, name, _function(function, attribute))
            copies[attribute] = before.graph.get_attr(name)
            copies[attribute].meta = dict(attribute.meta)
        result = before.graph.graph_copy(function.graph, copies)
    return next(iter(_as_tuple(result)))


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
        environment: Any = value.node.shape_env
        ranges = environment.var_to_range
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
