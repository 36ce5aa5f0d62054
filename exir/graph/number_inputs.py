"""Checks integers that are inputs of a method, before anything is computed with them.

    def forward(self, x, n): return x + torch.arange(n)    # n: Dim.DYNAMIC
    ==>  _assert_scalar(n >= 2, "input n: found ", n, ", expected 2 to 64")

Delegates check the sizes of tensors. An integer is also read by the method's own instructions, and
only its input has a name.
"""

import operator
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import Node, Proxy
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from pteron.exir.graph import kernels
from pteron.exir.graph.export_guards import guards_of, is_relation
from pteron.exir.graph.exported_program import argument_name, copy_program
from pteron.exir.graph.shape_bounds import ShapeBounds, affine

_aten = torch.ops.aten


def check_number_inputs(program: ExportedProgram) -> ExportedProgram:
    """The program with assertions of ranges, and of relations to other inputs; itself if no input
    is a symbolic integer."""
    if not any(_is_number(node) for node in program.graph.find_nodes(op="placeholder")):
        return program
    guards = [guard for guard in dict.fromkeys(guards_of(program)) if is_relation(guard)]
    program = copy_program(program)
    placeholders = list(program.graph.find_nodes(op="placeholder"))
    with program.graph.inserting_before(placeholders[-1].next):
        checks = _Checks(program, placeholders)
        for number in filter(_is_number, placeholders):
            checks.range_of(number)
        for guard in guards:
            checks.relation(guard)
    program.graph.lint()
    program.graph_module.recompile()
    return program


def _is_number(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt)


class _Checks:
    """Adds assertions to a program."""

    def __init__(self, program: ExportedProgram, placeholders: list[Node]) -> None:
        self._bounds = ShapeBounds(program)
        self._graph = program.graph
        # By symbol: a node with its value, and its name for the caller.
        self._values: dict[sympy.Expr, Node] = {}
        self._words: dict[sympy.Expr, sympy.Expr] = {}
        self._numbers = {n.meta["val"].node.expr: n for n in filter(_is_number, placeholders)}
        for number in self._numbers.values():
            self._add(number.meta["val"], number, sympy.Symbol(argument_name(number.name)))
        for node in placeholders:
            value: Any = node.meta.get("val")
            name = argument_name(node.name)
            if _is_number(node) and node not in self._numbers.values():
                self._add(value, node, sympy.Symbol(name))
            for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt):
                    self._add(size, (node, dim), sympy.Symbol(f"{name}.size({dim})"))

    def _add(self, value: torch.SymInt, source: Any, words: sympy.Symbol) -> None:
        """Records where a symbol's value is; if it is a number's, asserts that both are equal."""
        symbol, scale, offset = affine(value.node.expr) or (None, 1, 0)
        is_known = symbol in self._values
        if symbol is None or (is_known and symbol not in self._numbers):
            return
        if isinstance(source, tuple):
            source = self._call(_aten.sym_size.int, *source)
        if is_known:
            expected = scale * self._words[symbol] + offset
            known: Any = self._call(operator.mul, self._values[symbol], scale)
            known = self._call(operator.add, known, offset)
            self._assert(symbol, self._call(operator.eq, source, known), f"{words} == {expected}")
            return
        source = self._call(operator.sub, source, offset) if offset else source
        self._values[symbol] = (
            self._call(operator.floordiv, source, scale) if scale != 1 else source
        )
        self._words[symbol] = (words - offset) / scale

    def range_of(self, number: Node) -> None:
        """Asserts the range that export found."""
        found = self._bounds.range_of(number.meta["val"])
        lower, upper = (
            int(limit) if isinstance(limit, sympy.Integer) else None
            for limit in (found.lower, found.upper)
        )
        words = f"{lower} to {upper}"
        if lower is None or upper is None:
            words = f"at least {lower}" if upper is None else f"at most {upper}"
        for compare, limit in ((operator.ge, lower), (operator.le, upper)):
            if limit is not None:
                condition = self._call(compare, number, limit)
                self._assert(number.meta["val"].node.expr, condition, words)

    def relation(self, guard: Any) -> None:
        """Asserts a guard of numbers, if the inputs have all symbols of it."""
        numbers = [symbol for symbol in self._numbers if symbol in guard.free_symbols]
        if not numbers or guard.free_symbols - self._values.keys():
            return
        before = set(self._graph.nodes)
        proxies = {symbol: Proxy(node) for symbol, node in self._values.items()}
        condition = sympy_interp(PythonReferenceAnalysis, proxies, guard)
        for node in self._graph.nodes:
            if node not in before:
                _evaluate(node)
        sides = (str(side.xreplace(self._words)) for side in (guard.lhs, guard.rhs))
        self._assert(numbers[0], condition.node, f" {guard.rel_op} ".join(sides))

    def _call(self, target: Any, *args: Any) -> Node:
        return _evaluate(self._graph.call_function(target, args))

    def _assert(self, symbol: sympy.Expr, condition: Node, expected: str) -> None:
        number = self._numbers[symbol]
        text = f"input {argument_name(number.name)}: found ", number, f", expected {expected}"
        check = self._graph.call_function(_aten._assert_scalar.default, (condition, *text))
        check.meta = {kernels.ON_HOST: True, "val": None}


def _evaluate(node: Node) -> Node:
    """Sets the value of a call by those of its arguments."""
    target: Any = node.target
    node.meta["val"] = target(*torch.fx.map_arg(node.args, lambda argument: argument.meta["val"]))
    return node
