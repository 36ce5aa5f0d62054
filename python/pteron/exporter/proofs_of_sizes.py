"""Conditions on dynamic sizes that are the same for all of these, though torch cannot derive it, as
`n // 2 <= n` of a slice: each size is tried."""

import contextlib
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import sympy
import torch
from sympy.logic.boolalg import BooleanFunction
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.printers import PythonPrinter

from pteron.exir.graph.traced_metadata import unguarded_metadata

#: Sizes, or combinations of them, up to which all are tried.
_MOST = 1 << 13


@contextlib.contextmanager
def tried_sizes(small: set[int] | None) -> Iterator[None]:
    """Inside, torch knows such conditions.

    Args:
      small: if given, what is computed of a size is not taken to be 0 or 1, as torch does not take
        sizes themselves; sizes for which it is are added.
    """
    static: Any = ShapeEnv._maybe_evaluate_static

    def evaluate(env: ShapeEnv, expr: Any, **options: Any) -> Any:
        found = static(env, expr, **options)
        if found is not None or options.get("unbacked_only") or options.get("compute_hint"):
            return found
        expr = env.simplify(expr)
        if (of := _symbols(env, expr)) is None:
            return None
        symbols, bounds = of
        if isinstance(expr, sympy.Rel):
            factor = expr.lhs.as_coeff_Mul()[0]
            if factor.is_Integer and factor > 1 and expr.rhs % factor == 0:
                expr = expr.func(expr.lhs / factor, expr.rhs / factor)
                if not isinstance(expr, sympy.Rel):
                    return expr
        value, _ = _value_for_all(expr, symbols, bounds)
        if value is None and small is not None and len(symbols) == 1:
            if isinstance(expr, sympy.Rel) and expr.rhs in (0, 1, 2):
                value, few = _value_for_all(expr, symbols, bounds, expr.lhs < 2)
                if value is None or value != static(env, expr, compute_hint=True):
                    return None  # a remainder, and no size
                small.update(few)
        return None if value is None else sympy.sympify(value)

    vars(evaluate)["cache_clear"] = static.cache_clear
    patched = mock.patch.object(ShapeEnv, "_maybe_evaluate_static", evaluate)
    with patched, unguarded_metadata():
        yield


def sizes_where(env: ShapeEnv, expr: Any, value: bool) -> set[int]:
    """The first and last sizes for which a condition on one of them has a value."""
    of = _symbols(env, env.simplify(expr))
    if of is None or len(of[0]) != 1:
        return set()
    condition = env.simplify(expr if value else sympy.Not(expr))
    found = sorted(_value_for_all(sympy.true, *of, condition)[1])
    return {*found[:2], *found[-1:]}


def _symbols(
    env: ShapeEnv, expr: Any
) -> tuple[tuple[Any, ...], tuple[tuple[int, int], ...]] | None:
    """The symbols of a condition, with the least and largest values that they have."""
    symbols = tuple(sorted(expr.free_symbols, key=str))
    ranges = [env.var_to_range[symbol] for symbol in symbols if symbol in env.var_to_range]
    ends = [end for found in ranges for end in (found.lower, found.upper)]
    if len(ranges) < len(symbols) or not isinstance(expr, sympy.Rel | BooleanFunction):
        return None
    if not all(isinstance(end, sympy.Integer) for end in ends):
        return None
    return symbols, tuple((int(found.lower), int(found.upper)) for found in ranges)


@functools.lru_cache(maxsize=1024)
def _value_for_all(
    expr: Any,
    symbols: tuple[Any, ...],
    bounds: tuple[tuple[int, int], ...],
    unless: Any = sympy.false,
) -> tuple[bool | None, set[int]]:
    """The value of a condition if it is the same for all values of the symbols but those for which
    another one holds; and these."""
    first, others = None, set[int]()
    if math.prod(high - low + 1 for low, high in bounds) > _MOST:
        return None, others
    pair = ", ".join(map(PythonPrinter().doprint, (expr, unless)))
    try:
        evaluate = eval(
            f"lambda {', '.join(map(str, symbols))}: ({pair})", {"math": math, "torch": torch}
        )
        for sizes in itertools.product(*(range(low, high + 1) for low, high in bounds)):
            value, is_other = map(bool, evaluate(*sizes))
            if is_other:
                others |= {*sizes}
            elif first is None:
                first = value
            elif value is not first:
                return None, set()
    except Exception:  # what Python does not compute
        return None, set()
    return first, others
