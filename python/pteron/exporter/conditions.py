"""Conditions in the Python code of models that may have the same value for all inputs: one outcome
is nothing but an error or a warning, or changes nothing (`if mask.any(): x[mask] = 0`)."""

import ast
import functools
import itertools
import linecache
import os
import re
from collections.abc import Collection, Iterator, Sequence
from types import FrameType

_Position = tuple[int | None, int | None, int | None, int | None]

_LEAVES = (ast.Return, ast.Break, ast.Continue)
#: Functions that fail without elements.
_OF_SOME = re.compile(r"\b(a|arg)?(max|min|minmax)\b|\b(median|mode|quantile|topk|kthvalue)\b")
_REPORT = re.compile(r"warn|\bprint|\blog(ger|ging)?\b", re.IGNORECASE)


def outcome(frame: FrameType) -> tuple[bool, bool] | None:
    """The value that a condition that the frame evaluates may always have, and whether the other is
    a check's; None if there is none, or no source of it."""
    # Of a jump in Python 3.11 the place is the statement, and what is before it is the condition.
    step = frame.f_lasti // 2
    at = {*itertools.islice(frame.f_code.co_positions(), max(step - 1, 0), step + 1)}
    for test, value, is_check in _conditions(frame.f_code.co_filename):
        if (found := _value(test, value, at)) is not None:
            return found, is_check
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
            body, rest = statement.body, statement.orelse
            if _raises(body) or (_warns(body) and not rest):
                found.append((statement.test, False, True))
            elif _raises(rest or (later if isinstance(body[-1], _LEAVES) else [])):
                found.append((statement.test, True, True))
            elif not rest and _is_of_mask(body, statement.test):
                found.append((statement.test, True, False))
    return tuple(found)


def _statements(tree: ast.AST) -> Iterator[tuple[ast.stmt, Sequence[ast.stmt]]]:
    """Each statement with those after it in its block."""
    for node in ast.walk(tree):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                yield from ((each, block[i + 1 :]) for i, each in enumerate(block))


def _raises(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and (
        isinstance(block[-1], ast.Raise)
        and not any(isinstance(n, _LEAVES) for each in block for n in ast.walk(each))
    )


def _warns(block: Sequence[ast.stmt]) -> bool:
    """Whether a block does nothing else."""
    calls = [each.value for each in block if isinstance(each, ast.Expr)]
    return len(calls) == len(block) and all(
        isinstance(call, ast.Call) and _REPORT.search(ast.unparse(call.func)) for call in calls
    )


def _is_of_mask(block: Sequence[ast.stmt], test: ast.expr) -> bool:
    """Whether a block writes only elements of a mask, and the condition is that it has some."""
    found = re.fullmatch(r"torch\.any\((.+)\)|(?:\((.+)\)|([\w.]+))\.any\(\)", ast.unparse(test))
    masks = found.groups() if found else ()

    def is_part(target: ast.expr) -> bool:
        if isinstance(target, ast.Tuple):
            return all(map(is_part, target.elts))
        return isinstance(target, ast.Subscript) and ast.unparse(target.slice) in masks

    return all(
        isinstance(each, ast.Assign | ast.AugAssign)
        and all(map(is_part, each.targets if isinstance(each, ast.Assign) else [each.target]))
        and not _OF_SOME.search(ast.unparse(each))
        for each in block
    )


def _value(test: ast.expr, value: bool, at: Collection[_Position]) -> bool | None:
    """The value that part of a condition has to have, if it is at one of the positions."""
    if (test.lineno, test.end_lineno, test.col_offset, test.end_col_offset) in at:
        return value
    parts: list[ast.expr] = test.values if isinstance(test, ast.BoolOp) else []
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        parts, value = [test.operand], not value
    return next((v for part in parts if (v := _value(part, value, at)) is not None), None)
