"""Checks of data-dependent integers that are used as sizes, offsets, indices or divisors.

    x[i.item()]    ==>    int64_t u0 = i_raw;
                          if (!(-64L <= u0 && u0 <= 63L)) aoti_torch_check(false, ...);

Such an integer is an input or was read from a tensor (an unbacked SymInt). Eager checks it in each
call, Inductor does not. Here each operator that computes an address with one gets eager's check,
unless the asserted bounds prove it. Checks are emitted right behind the definition of the last
symbol in them, before any use, and Inductor's own assertions with them. Graphs without such symbols
are not changed.

A failed check reports the value, what was expected, the operator and the line of the model.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from pteron.backends.aoti.inductor.patches import Context, patched, together, wrapped
from pteron.backends.aoti.inductor.places import place, place_in_kernel

#: Larger tensors are errors, as they are out of memory in eager: a fused loop would run for hours.
_MAX_NBYTES = 2**40
_INT64 = -(2**63), 2**63 - 1


@dataclasses.dataclass(frozen=True)
class _Range:
    """`lower <= value <= upper`; None is no bound. `not_zero`: nor is the value 0."""

    what: str
    value: Any
    lower: Any = None
    upper: Any = None
    not_zero: bool = False


def _select(x: Any, dim: int, index: Any) -> Iterator[_Range]:
    size = x.get_size()[dim]
    yield _Range("the index", index, -size, size - 1)


def _slice_scatter(*args: Any, **kwargs: Any) -> Iterator[_Range]:
    from torch.utils._sympy.functions import FloorDiv, Max

    _, src, dim, first, last, step = _clamped_slice(*args, **kwargs)
    given = src.get_size()[dim]
    yield _Range("the step", step, 1)
    length = FloorDiv(Max(0, last - first) + step - 1, step)
    yield _Range("the length of the slice", length, given, given)


def _clamped_slice(
    x: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> tuple[Any, ...]:
    """Arguments of `slice_scatter`. Of a start that may be negative torch 2.14 would not generate
    code, but call a function that has no C ABI."""
    size = x.get_size()[dim]
    first = _clamped(0 if start is None else start, size)
    last = _clamped(size if end is None else end, size)
    return x, src, dim, first, last, step


def _clamped(index: Any, size: Any) -> Any:
    """A slice index, wrapped and clamped as in Python."""
    from torch.utils._sympy.functions import Max, Min, Where

    if _proven(_Range("", index, 0)):
        return Min(index, size)
    return Max(0, Min(Where(sympy.Lt(index, 0), index + size, index), size))


def _as_strided(x: Any, size: Any, stride: Any, offset: Any = None) -> Iterator[_Range]:
    from torch._inductor import ir

    base = x.data.unwrap_view() if isinstance(x.data, ir.BaseView) else x.data
    if offset is None:
        offset = x.get_layout().offset if x.maybe_get_layout() is not None else 0
    yield from _strided(size, stride)
    yield _Range("the storage offset", offset, 0)
    for length in size:
        yield _Range("the size", length, 0)
    ends = (sympy.Max(length - 1, 0) * step for length, step in zip(size, stride, strict=True))
    layout = base.maybe_get_layout()
    stored = layout.storage_size() if layout is not None else math.prod(base.get_size())
    # An empty tensor may start at the end of the storage.
    yield _Range("the position of the last element", sum(ends, offset), None, stored - 1)


def _split(x: Any, sizes: Any, dim: int = 0) -> Iterator[_Range]:
    total = x.get_size()[dim]
    if isinstance(sizes, list | tuple):
        for size in sizes:
            yield _Range("the size of a part", size, 0)
        yield _Range("the sum of the sizes", sum(sizes), total, total)
    else:
        yield _Range("the size of a part", sizes, 1)


def _view(x: Any, sizes: Any) -> Iterator[_Range]:
    from torch.utils._sympy.functions import Mod

    elements, known = math.prod(x.get_size()), [size for size in sizes if size != -1]
    for size in known:
        yield _Range("the size", size, 0)
    if len(known) == len(sizes):
        yield _Range("the number of elements", math.prod(sizes), elements, elements)
    else:
        yield _Range("what is left of the elements", Mod(elements, math.prod(known)), 0, 0)


def _expand(x: Any, sizes: Any, implicit: bool = False) -> Iterator[_Range]:
    own = x.get_size()
    for old, new in zip(reversed(own), reversed(sizes), strict=False):
        if old != 1 and new != -1:
            yield _Range("the size", new, old, old)


def _unfold(x: Any, dim: int, size: Any, step: Any) -> Iterator[_Range]:
    yield _Range("the size", size, 0, x.get_size()[dim] if x.get_size() else 1)
    yield _Range("the step", step, 1)


def _strided(size: Any, stride: Any, **_: Any) -> Iterator[_Range]:
    for step in stride:
        yield _Range("the stride", step, 0)


_aten = torch.ops.aten

_RULES: dict[Any, Callable[..., Iterator[_Range]]] = {
    _aten.select.int: _select,
    _aten.select_scatter.default: lambda x, src, *index: _select(x, *index),
    _aten.slice_scatter.default: _slice_scatter,
    _aten.as_strided.default: _as_strided,
    _aten.as_strided_copy.default: _as_strided,
    _aten.as_strided_scatter.default: lambda x, src, *layout: _as_strided(x, *layout),
    _aten.split.Tensor: _split,
    _aten.split_with_sizes.default: _split,
    _aten.view.default: _view,
    _aten._unsafe_view.default: _view,
    _aten.reshape.default: _view,
    _aten.expand.default: _expand,
    _aten.unfold.default: _unfold,
    _aten.empty_strided.default: _strided,
}
"""Operators that compute addresses with an integer, and eager's checks of it. Sizes of results are
checked for all operators."""


def check_unbacked_values() -> Context:
    """See the module's docstring."""
    from torch._inductor import ir
    from torch._inductor.codegen.cpp import CppKernel
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import Scheduler

    def run_checked(run: Any, graph: Any, node: torch.fx.Node) -> Any:
        result = run(graph, node)
        if isinstance(result, sympy.Basic) and node.op == "call_function":
            with graph.set_current_node(node):
                _add(graph, _integer_inputs(graph), [_Range("", result)])
        return result

    def call_checked(call: Any, graph: Any, target: Any, args: Any, kwargs: Any) -> Any:
        symbols = _integer_inputs(graph)
        if target is _aten.slice.Tensor and len(args) > 2 and args[2] is None:
            args = (*args[:2], 0, *args[3:])  # Inductor would print "None" into the code
        rule = _RULES.get(target)
        if rule is not None and _depends(symbols, (args, kwargs)):
            _add(graph, symbols, rule(*args, **kwargs))
            if target is _aten.slice_scatter.default:
                args, kwargs = _clamped_slice(*args, **kwargs), {}
        result = call(graph, target, args, kwargs)
        _add(graph, symbols, _of_result(result, symbols))
        return result

    def assert_at(assert_: Any, graph: Any, node: torch.fx.Node, defined: Any) -> None:
        before = len(graph.operations)
        assert_(graph, node, defined)
        for check in graph.operations[before:]:
            check._pteron_node = node

    def write_named(write: Any, check: Any, wrapper: Any) -> None:
        from torch._inductor.virtualized import V

        if not V.graph.cpp_wrapper or V.graph.fx_wrapper:
            write(check, wrapper)
            return
        # All are emitted where their symbols are defined, so that one of each condition is enough.
        written = V.graph.__dict__.setdefault("_pteron_written", set())
        for condition, line in _statements(check):
            if condition not in written:
                written.add(condition)
                wrapper.writeline(line)

    def assert_in_loop(kernel: Any, condition: Any, message: str) -> None:
        where = place_in_kernel(["assert"])
        kernel.compute.writeline(
            f"if (!({condition})) aoti_torch_check(false, {where}, {json.dumps(message)});"
        )

    return together(
        wrapped(GraphLowering, "run_node", run_checked),
        wrapped(GraphLowering, "call_function", call_checked),
        wrapped(GraphLowering, "create_deferred_runtime_asserts", assert_at),
        wrapped(ir.AssertScalar, "codegen", write_named),
        patched(CppKernel, "device_assert_async", assert_in_loop),
        wrapped(Scheduler, "_codegen", lambda order, it, nodes: order(it, _sorted(list(nodes)))),
    )


def _integer_inputs(graph: Any) -> set[sympy.Symbol]:
    """Integer inputs of a graph; the first call adds the program's assertions of them."""
    found: set[sympy.Symbol] | None = graph.__dict__.get("_pteron_integer_inputs")
    if found is None:
        inputs = graph.graph_inputs.values()
        found = {value for value in inputs if isinstance(value, sympy.Symbol)}
        graph._pteron_integer_inputs = found
        graph._pteron_checks = set()
        if type(graph).__name__ == "GraphLowering":
            _assert_inputs(graph, found)
    return found


def _assert_inputs(graph: Any, symbols: Iterable[sympy.Symbol]) -> None:
    """Adds the assertions of symbols that another partition defines and passes in."""
    for symbol in sorted(symbols, key=str):
        bounds = graph.sizevars.shape_env.var_to_range[symbol]
        for fact in graph.ras_by_symbol.pop(symbol, ()):
            _register(graph, fact.expr)
        for compare, bound in ((sympy.Ge, bounds.lower), (sympy.Le, bounds.upper)):
            if isinstance(bound, sympy.Integer):
                _register(graph, compare(symbol, bound, evaluate=False))


def _depends(symbols: set[sympy.Symbol], value: Any) -> bool:
    """Whether `value`, which may be nested, contains a data-dependent symbol."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    unbacked = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)
    parts = (part for part in pytree.tree_leaves(value) if isinstance(part, sympy.Basic))
    read = (symbol for part in parts for symbol in part.free_symbols)
    return any(symbol in symbols or symbol_is_type(symbol, unbacked) for symbol in read)


def _of_result(result: Any, symbols: set[sympy.Symbol]) -> Iterator[_Range]:
    from torch._inductor import ir

    if isinstance(result, list | tuple):
        for item in result:
            yield from _of_result(item, symbols)
    elif isinstance(result, ir.TensorBox) and _depends(symbols, sizes := result.get_size()):
        for size in sizes:
            yield _Range("the size", size, 0)
        limit = _MAX_NBYTES // result.get_dtype().itemsize
        yield _Range("the number of elements", _as_float(math.prod(sizes)), None, limit)


def _add(graph: Any, symbols: set[sympy.Symbol], ranges: Iterable[_Range]) -> None:
    for checked in ranges:
        if _depends(symbols, (checked.value, checked.lower, checked.upper)):
            for value in (checked.value, checked.lower, checked.upper):
                for within in _of_arithmetic(value):
                    _add_check(graph, within)
            _add_check(graph, checked)


def _of_arithmetic(value: Any) -> Iterator[_Range]:
    """Ranges of the operands in an expression: no zero divisor, no overflow of int64."""
    from torch.utils._sympy import functions

    integers = (functions.FloorDiv, functions.Mod, functions.PythonMod, functions.ModularIndexing)
    divisions = (*integers, functions.IntTrueDiv, functions.FloatTrueDiv)
    leaves = _leaves(value)
    for leaf in leaves:
        for argument in leaf.args:
            yield from _of_arithmetic(argument)
        if isinstance(leaf, divisions):
            for divisor in leaf.args[1:]:
                yield _Range("the divisor", divisor, not_zero=True)
                if isinstance(leaf, integers) and not _proven(_Range("", divisor, 0)):
                    # INT64_MIN / -1 overflows.
                    yield _Range("the number divided", leaf.args[0], _INT64[0] + 1)
    if leaves != [value] and getattr(value, "is_integer", False):
        lower, upper = (limit // 2 for limit in _INT64)
        yield _Range("the number", _as_float(value), lower, upper)


_SUMS = sympy.Add, sympy.Mul, sympy.Pow


def _leaves(value: Any) -> list[Any]:
    """Operands of nested sums and products, which are associative in 64 bits."""
    if isinstance(value, _SUMS):
        return [leaf for argument in value.args for leaf in _leaves(argument)]
    return [value] if isinstance(value, sympy.Basic) else []


def _as_float(value: Any) -> Any:
    """Sums and products as `double`, which do not overflow; other operations are leaves."""
    from torch.utils._sympy.functions import ToFloat

    if isinstance(value, sympy.Pow):
        return sympy.Pow(_as_float(value.base), value.exp, evaluate=False)
    if isinstance(value, _SUMS):
        return value.func(*map(_as_float, value.args), evaluate=False)
    return value if sympy.sympify(value).is_number else ToFloat(value, evaluate=False)


def _proven(checked: _Range) -> bool:
    """Whether the asserted bounds of the symbols imply the range."""
    from torch._inductor.virtualized import V
    from torch.utils._sympy.value_ranges import bound_sympy

    ranges = V.graph.sizevars.shape_env.var_to_range

    def is_positive(value: Any, least: int = 0) -> bool:
        return bool(bound_sympy(sympy.sympify(value), ranges).lower >= least)

    if checked.not_zero and not (is_positive(checked.value, 1) or is_positive(-checked.value, 1)):
        return False
    return (checked.lower is None or is_positive(checked.value - checked.lower)) and (
        checked.upper is None or is_positive(checked.upper - checked.value)
    )


def _add_check(graph: Any, checked: _Range) -> None:
    if _proven(checked):
        return
    key = dataclasses.replace(checked, what="")
    if key in graph._pteron_checks:
        return
    graph._pteron_checks.add(key)
    parts = (part for part in (checked.value, checked.lower, checked.upper) if part is not None)
    _register(graph, sympy.Tuple(*parts))._pteron_range = checked


def _register(graph: Any, checked: Any) -> Any:
    from torch._inductor import ir

    check: Any = ir.AssertScalar(checked, "")
    check._pteron_node = graph.current_node
    graph.register_buffer(check, set_name=True)
    graph.register_operation(check)
    return check


def _statements(check: Any) -> Iterator[tuple[str, str]]:
    """The conditions of a check, ours or one of Inductor's assertions, and the C++ of each."""
    checked = getattr(check, "_pteron_range", None)
    if checked is not None:
        yield _statement(check, *_condition(checked))
        return
    for within in _of_arithmetic_in(check.scalar):
        if not _proven(within):
            yield _statement(check, *_condition(within))
    fact = check.scalar
    symbols = sorted(fact.free_symbols, key=str)
    found = [part for symbol in symbols for part in (f", {symbol} is ", symbol)]
    if isinstance(fact, sympy.core.relational.Relational) and fact.canonical != sympy.true:
        fact = fact.canonical  # so that equal assertions are emitted once
    yield _statement(check, _cpp(fact), [f"expected {check.scalar}", *found])


def _of_arithmetic_in(condition: Any) -> Iterator[_Range]:
    if isinstance(condition, sympy.logic.boolalg.Boolean):
        for argument in condition.args:
            yield from _of_arithmetic_in(argument)
    else:
        yield from _of_arithmetic(condition)


def _condition(checked: _Range) -> tuple[str, list[Any]]:
    """The condition in C++, and the parts of the message: text and expressions."""
    value, lower, upper = _cpp(checked.value), checked.lower, checked.upper
    holds = []
    if lower is not None:
        holds.append(f"{_cpp(lower)} <= {value}")
        expected = ["at least ", lower]
    if upper is not None:
        holds.append(f"{value} <= {_cpp(upper)}")
        expected = ["at most ", upper] if lower is None else [lower, " to ", upper]
        expected = [lower] if lower == upper else expected
    if checked.not_zero:
        holds.append(f"{value} != 0")
        expected = ["a number that is not 0"]
    return " && ".join(holds), [f"{checked.what} is ", checked.value, ", expected ", *expected]


def _cpp(value: Any) -> str:
    from torch._inductor.codegen.cpp_utils import CppPrinter

    return str(CppPrinter().doprint(sympy.sympify(value), simplify=False))


def _statement(check: Any, condition: str, message: Sequence[Any]) -> tuple[str, str]:
    node = check._pteron_node
    parts = [
        f"std::to_string({_cpp(part)})"
        if isinstance(part, sympy.Basic) and part.free_symbols
        else json.dumps(str(part))
        for part in message
    ]
    text = " + ".join(["std::string()", *parts])
    where = place((node, *node.all_input_nodes))
    failed = f"aoti_torch_check(false, {where}, ({text}).c_str())"
    return condition, f"if (!({condition})) {{ {failed}; }}"


def _sorted(nodes: list[Any]) -> list[Any]:
    """The order of nodes with each check right behind the last symbol that it reads."""
    from torch._inductor import ir

    checks = [node for node in nodes if isinstance(node.node, ir.AssertScalar)]
    if not checks:
        return nodes
    places: dict[Any, int] = {}  # of symbols, and of nodes
    for index, node in enumerate(node for node in nodes if node not in checks):
        places[node] = 2 * index + 1
        for part in node.get_nodes():
            for symbol in part.node.get_unbacked_symbol_defs():
                places.setdefault(symbol, 2 * index + 2)
    for check in checks:
        symbols = check.node.get_free_symbol_uses()
        places[check] = max((places.get(symbol, 0) for symbol in symbols), default=0)
    return sorted(nodes, key=places.__getitem__)
