"""Conditions in the Python code of models, one outcome of which is nothing but an error or a
warning."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import re
from collections.abc import Collection, Iterator, Sequence
from types import FrameType

_Position = tuple[int | None, int | None, int | None, int | None]

_LEAVES = (ast.Return, ast.Break, ast.Continue)
_REPORT = re.compile(r"warn|\bprint|\blog(ger|ging)?\b", re.IGNORECASE)


def passing(frame: FrameType) -> bool | None:
    """The value with which a condition that the frame evaluates does not end in an error or a
    warning; None if no outcome is that alone, or the source is not known."""
    # Of a jump in Python 3.11 the place is the statement, and what is before it is the condition.
    step = frame.f_lasti // 2
    at = {*itertools.islice(frame.f_code.co_positions(), max(step - 1, 0), step + 1)}
    values = (_value(test, value, at) for test, value in _checks(frame.f_code.co_filename))
    return next((value for value in values if value is not None), None)


@functools.lru_cache(maxsize=256)
def _checks(file: str) -> tuple[tuple[ast.expr, bool], ...]:
    """The conditions of checks in a file, and the values with which they pass."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    found = []
    for statement, later in _statements(tree):
        if isinstance(statement, ast.Assert):
            value = True
        elif not isinstance(statement, ast.If):
            continue
        elif _only_fails(statement.body):
            value = False
        elif _only_fails(statement.orelse or (later if _leaves(statement.body) else [])):
            value = True
        else:
            continue
        found.append((statement.test, value))
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
