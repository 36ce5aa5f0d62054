"""Conditions in the Python code of models that have the same value for all inputs, or could have:
one outcome is nothing but an error or a warning, or changes nothing (`if mask.any(): x[mask] = 0`)."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import os
import re
from collections.abc import Collection, Iterator, Sequence
from types import FrameType
from typing import NamedTuple

_Position = tuple[int | None, int | None, int | None, int | None]

_LEAVES = (ast.Return, ast.Break, ast.Continue)
#: Functions that fail without elements.
_OF_SOME = re.compile(r"\b(a|arg)?(max|min|minmax)\b|\b(median|mode|quantile|topk|kthvalue)\b")
_REPORT = re.compile(r"warn|\bprint|\blog(ger|ging)?\b", re.IGNORECASE)


class Outcome(NamedTuple):
    """The value that a condition may always have, and whether the other is a check's."""

    value: bool
    is_check: bool


def outcome(frame: FrameType) -> Outcome | None:
    """That of a condition that the frame evaluates; None if there is none, or no source of it."""
    # Of a jump in Python 3.11 the place is the statement, and what is before it is the condition.
    step = frame.f_lasti // 2
    at = {*itertools.islice(frame.f_code.co_positions(), max(step - 1, 0), step + 1)}
    for test, value, is_check in _conditions(frame.f_code.co_filename):
        if (found := _value(test, value, at)) is not None:
            return Outcome(found, is_check)
    return None


def place_of(frame: FrameType | None) -> str:
    """File and line."""
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else "?"


@functools.lru_cache(maxsize=256)
def _conditions(file: str) -> tuple[tuple[ast.expr, bool, bool], ...]:
    """The conditions in a file that may always have one value, with their outcomes."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    found = []
    for statement, later in _statements(tree):
        if isinstance(statement, ast.Assert):
            found.append((statement.test, True, True))
        elif isinstance(statement, ast.If):
            rest = statement.orelse or (later if _leaves(statement.body) else [])
            if _only_fails(statement.body):
                found.append((statement.test, False, True))
            elif _only_fails(rest):
                found.append((statement.test, True, True))
            elif not statement.orelse and _is_of_mask(statement.body, statement.test):
                found.append((statement.test, True, False))
    return tuple(found)


def _statements(tree: ast.AST) -> Iterator[tuple[ast.stmt, Sequence[ast.stmt]]]:
    """Each statement with those after it in its block."""
    for node in ast.walk(tree):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                yield from ((each, block[i + 1 :]) for i, each in enumerate(block))


def _leaves(block: Sequence[ast.stmt]) -> bool:
    return isinstance(block[-1], _LEAVES)


def _only_fails(block: Sequence[ast.stmt]) -> bool:
    """Whether a block ends in an error, or does nothing but warn."""
    if not block or any(isinstance(n, _LEAVES) for each in block for n in ast.walk(each)):
        return False
    return _raises(block) or all(
        isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Call)
        and _REPORT.search(ast.unparse(each.value.func)) is not None
        for each in block
    )


def _raises(block: Sequence[ast.stmt]) -> bool:
    last = block[-1] if block else None
    if isinstance(last, ast.If):
        return _raises(last.body) and _raises(last.orelse)
    return isinstance(last, ast.Raise)


def _is_of_mask(block: Sequence[ast.stmt], test: ast.expr) -> bool:
    """Whether a block writes only elements of a mask, and the condition is that it has some."""
    if isinstance(test, ast.Compare) and ast.unparse(test).endswith(" > 0"):
        test = test.left
    if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Attribute):
        return False
    if test.func.attr not in ("any", "sum") or len(test.args) > 1 or test.keywords:
        return False
    mask = ast.unparse(test.args[0] if test.args else test.func.value)

    def is_part(target: ast.expr) -> bool:
        if isinstance(target, ast.Tuple):
            return all(map(is_part, target.elts))
        return isinstance(target, ast.Subscript) and ast.unparse(target.slice) == mask

    targets = [
        each.targets if isinstance(each, ast.Assign) else [each.target]
        for each in block
        if isinstance(each, ast.Assign | ast.AugAssign)
    ]
    return (
        len(targets) == len(block)
        and all(map(is_part, itertools.chain(*targets)))
        and not any(_OF_SOME.search(ast.unparse(each)) for each in block)
    )


def _value(test: ast.expr, value: bool, at: Collection[_Position]) -> bool | None:
    """The value that part of a condition has to have, if it is at one of the positions."""
    if (test.lineno, test.end_lineno, test.col_offset, test.end_col_offset) in at:
        return value
    parts: list[ast.expr] = []
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        parts, value = [test.operand], not value
    elif isinstance(test, ast.BoolOp):
        parts = test.values
    elif isinstance(test, ast.IfExp):
        parts = [test.body, test.orelse]
    return next((v for part in parts if (v := _value(part, value, at)) is not None), None)
