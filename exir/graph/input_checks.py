"""Checks integers and sizes that are inputs of a method, before anything is computed with them.

    def forward(self, x, n): return x + torch.arange(n)    # n: Dim.DYNAMIC
    ==>  _assert_scalar(n >= 2, "input n: found ", n, ", expected 2 to 64")

    def forward(self, x): return x if x.shape[0] / 4 > 1.2 else -x    # torch.export's guard
    ==>  _assert_scalar(x.size(0) / 4 > 1.2, "the sizes of the inputs do not satisfy ...")

Delegates check the sizes of tensors that they get. An integer is also read by the method's own
instructions, and only its input has a name; and a guard may relate inputs of several delegates, or
such that nothing but a size is read of.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
from sympy.logic.boolalg import BooleanFunction
from sympy.printing.str import StrPrinter
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils._sympy.printers import PythonPrinter

from pteron.exir.graph import kernels
from pteron.exir.graph.export_guards import guards_of, is_relation, unchecked
from pteron.exir.graph.exported_program import argument_name, copy_program
from pteron.exir.graph.shape_bounds import ShapeBounds, affine

_aten = torch.ops.aten


_TARGETS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": torch.sym_max,
    "Min": torch.sym_min,
    "ToFloat": torch.sym_float,
    "CeilToInt": math.ceil,
    "FloorToInt": math.floor,
    "TruncToInt": math.trunc,
    "RoundToInt": round,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The function for an operation of sympy or torch."""


def check_inputs(program: ExportedProgram) -> ExportedProgram:
    """The program with assertions of export's guards, of the ranges of integers, and of the sizes
    of tensors of which nothing else is read; itself if there are none.

    Raises:
      ValueError: a guard is one that cannot be checked.
    """
    guards = [guard for guard in dict.fromkeys(guards_of(program)) if is_relation(guard)]
    given = program.graph.find_nodes(op="placeholder")
    if not guards and not any(_is_number(node) or _is_unused(node) for node in given):
        return program
    program = copy_program(program)
    placeholders = list(program.graph.find_nodes(op="placeholder"))
    with program.graph.inserting_before(placeholders[-1].next):
        checks = _Checks(program, placeholders, set[Any]().union(*(g.free_symbols for g in guards)))
        for guard in guards:
            checks.relation(guard)
    program.graph.lint()
    program.graph_module.recompile()
    return program


def _is_number(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt)


def _is_unused(node: Node) -> bool:
    """Whether it is a tensor of dynamic sizes of which nothing but these is read."""
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and any(isinstance(size, torch.SymInt) for size in value.shape)
        and all(user.target is _aten.sym_size.int for user in node.users)
    )


class _Checks:
    """Adds assertions to a program, of integers and unused tensors at once."""

    def __init__(
        self, program: ExportedProgram, placeholders: list[Node], symbols: set[sympy.Symbol]
    ) -> None:
        self._bounds = ShapeBounds(program)
        self._graph = program.graph
        # By symbol, or expression: a node with its value; and the symbol's name for the caller.
        self._values: dict[sympy.Expr, Node] = {}
        self._words: dict[sympy.Expr, sympy.Expr] = {}
        self._numbers = {n.meta["val"].node.expr: n for n in filter(_is_number, placeholders)}
        numbers = [*self._numbers.values()]
        numbers += [n for n in placeholders if _is_number(n) and n not in numbers]
        used = {node for node in placeholders if not _is_unused(node)}
        unused = [node for node in placeholders if node not in used]
        needed = symbols.union(
            self._numbers, *(s.node.expr.free_symbols for n in unused for s in _sizes(n).values())
        )
        for number in numbers:
            self._add(number.meta["val"], number, argument_name(number.name), True)
        for node in sorted(placeholders, key=unused.__contains__):
            name = argument_name(node.name)
            for dim, size in _sizes(node).items():
                if not needed.isdisjoint(size.node.expr.free_symbols):
                    self._add(size, (node, dim), f"{name}.size({dim})", node not in used)
        for number in numbers:
            self._range(number, number.meta["val"], f"input {argument_name(number.name)}", True)

    def _add(self, value: torch.SymInt, source: Any, words: str, is_checked: bool) -> None:
        """Records where a symbol's value is; if it is a number's, or to be checked, asserts that
        it is what it was elsewhere, or in its range."""
        symbol, scale, offset = affine(value.node.expr) or (None, 1, 0)
        is_known, is_number = symbol in self._values, isinstance(source, Node)
        is_checked |= symbol in self._numbers
        if symbol is None or (is_known and not is_checked):
            return
        size: Node = source if is_number else self._call(_aten.sym_size.int, *source)
        if is_known:
            expected = scale * self._words[symbol] + offset
            known: Any = self._call(operator.mul, self._values[symbol], scale)
            known = self._call(operator.add, known, offset)
            if symbol in self._numbers:
                number = self._numbers[symbol]
                what, found = f"input {argument_name(number.name)}", number
            else:
                what, found = words, size
            condition = self._call(operator.eq, size, known)
            self._assert(condition, f"{what}: found ", found, f", expected {words} == {expected}")
            return
        if is_checked and not is_number:
            self._range(size, value, words, False)
        start = self._call(operator.sub, size, offset) if offset else size
        self._values[symbol] = self._call(operator.floordiv, start, scale) if scale != 1 else start
        self._words[symbol] = (sympy.Symbol(words) - offset) / scale

    def _range(self, node: Node, value: torch.SymInt, what: str, is_number: bool) -> None:
        """Asserts the range that export found; memory is planned for the largest size of a
        tensor."""
        found = self._bounds.range_of(value)
        lower, upper = (
            int(limit) if isinstance(limit, sympy.Integer) else None
            for limit in (found.lower, found.upper)
        )
        words = f"{lower} to {upper}"
        if lower is None or upper is None:
            words = f"at least {lower}" if upper is None else f"at most {upper}"
        limits = (
            ((operator.ge, lower), (operator.le, upper)) if is_number else ((operator.ge, lower),)
        )
        for compare, limit in limits:
            if limit is not None and (is_number or limit > 0):
                condition = self._call(compare, node, limit)
                self._assert(condition, f"{what}: found ", node, f", expected {words}")

    def relation(self, guard: Any) -> None:
        """Asserts a guard."""
        words = guard.xreplace(self._words)
        joined = isinstance(guard, BooleanFunction)
        guard = sympy.Gt(_distance(guard), 0, evaluate=False) if joined else guard
        try:
            left, right = self._value(guard.lhs), self._value(guard.rhs)
        except KeyError as error:
            raise unchecked(_Printer().doprint(words)) from error
        condition = self._call(_TARGETS[guard.rel_op], left, right)
        text = _Printer().doprint(words)
        numbers = [node for symbol, node in self._numbers.items() if symbol in guard.free_symbols]
        if numbers:
            what = f"input {argument_name(numbers[0].name)}"
            self._assert(condition, f"{what}: found ", numbers[0], f", expected {text}")
            return
        found = [] if joined else [": found ", left, " and ", right]
        self._assert(
            condition,
            f"the sizes of the inputs do not satisfy {text}, on which the exported program relies",
            *found,
            "; give inputs of other sizes, or export the model so that it does not matter",
        )

    def _value(self, expression: Any) -> Any:
        """The value of an expression: a number or a node.

        Raises:
          KeyError: it has other operations, or symbols.
        """
        if expression.is_number:
            return int(expression) if expression.is_integer else float(expression)
        if expression not in self._values:
            arguments, target = expression.args, _TARGETS.get(type(expression).__name__)
            if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
                arguments, target = [expression.base] * int(expression.exp), operator.mul
            if target is None:
                raise KeyError(str(expression))
            values = [self._value(argument) for argument in arguments]
            joined = functools.partial(self._call, target)
            one = len(values) == 1
            self._values[expression] = joined(*values) if one else functools.reduce(joined, values)
        return self._values[expression]

    def _call(self, target: Any, *args: Any) -> Node:
        """A call, with its value by those of its arguments."""
        node = self._graph.call_function(target, args)
        values = torch.fx.map_arg(args, lambda argument: argument.meta["val"])
        node.meta = {kernels.ON_HOST: True, "val": target(*values)}
        return node

    def _assert(self, condition: Node, *text: Any) -> None:
        check = self._graph.call_function(_aten._assert_scalar.default, (condition, *text))
        check.meta = {kernels.ON_HOST: True, "val": None}


class _Printer(PythonPrinter):
    """For messages."""

    _print_Add = StrPrinter._print_Add
    _print_Mul = StrPrinter._print_Mul

    def _print_Float(self, expression: Any) -> str:
        return str(float(expression))

    def _print_ToFloat(self, expression: Any) -> str:
        return f"float({self._print(expression.args[0])})"


def _sizes(node: Node) -> dict[int, torch.SymInt]:
    """Dynamic sizes by dimension."""
    value = node.meta.get("val")
    shape: Any = value.shape if isinstance(value, torch.Tensor) else ()
    return {dim: size for dim, size in enumerate(shape) if isinstance(size, torch.SymInt)}


def _distance(guard: Any) -> Any:
    """An expression of integers that is positive if relations hold that and(), or() join."""
    if isinstance(guard, sympy.And | sympy.Or):
        join = sympy.Min if isinstance(guard, sympy.And) else sympy.Max
        return join(*map(_distance, guard.args), evaluate=False)
    if not (guard.lhs.is_integer and guard.rhs.is_integer):
        raise unchecked(_Printer().doprint(guard))
    difference = guard.lhs - guard.rhs
    return {
        "==": 1 - difference**2,
        "!=": difference**2,
        "<": -difference,
        "<=": 1 - difference,
        ">": difference,
        ">=": difference + 1,
    }[guard.rel_op]
