"""Whether two results are equal but for rounding.

The difference of two tensors is the largest one of their elements, relative to the largest
magnitude that is expected; of integers and booleans it is the share of elements that differ. Up to
`RESOLUTION` of the dtype it passes. Beyond, it is compared with what rounding does to this very
model: the difference between the exported program in its own and in double precision, and then
between it and itself with every operator's result changed in the last place. A model that makes
much of little differences is thereby distinguished from a lowering that is wrong.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.fx import Interpreter

from pteron.exir.verification.interpreters import (
    PreciseInterpreter,
    RoundingInterpreter,
    Tf32RoundingInterpreter,
)

RESOLUTION = {
    torch.float64: 1e-12,
    torch.complex128: 1e-12,
    torch.float32: 1e-5,
    torch.complex64: 1e-5,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
}
"""Differences that need no explanation; other dtypes have to be equal."""

_TIMES_ROUNDING = 10
"""A program may differ by so many times what rounding does."""

INCOMPARABLE = 1.0
"""From this limit on a result says nothing: rounding alone changes it beyond recognition."""


def difference(found: Any, expected: Any) -> float:
    """How far two values are apart, as the module's text has it; inf for what can't be compared."""
    if not isinstance(expected, torch.Tensor):
        equal = found == expected or (_is_nan(found) and _is_nan(expected))
        return 0.0 if type(found) is type(expected) and equal else math.inf
    if not isinstance(found, torch.Tensor):
        return math.inf
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return math.inf
    if expected.numel() == 0:
        return 0.0
    if expected.dtype not in RESOLUTION:
        return (found != expected).double().mean().item()
    wide = torch.complex128 if expected.is_complex() else torch.float64
    found, expected = found.to(wide), expected.to(wide)
    same = (found == expected) | (found.isnan() & expected.isnan())
    error = torch.where(same, 0, (found - expected).abs()).max().item()
    if not math.isfinite(error):
        return math.inf
    largest = expected[expected.isfinite()].abs()
    return error / ((largest.max().item() if largest.numel() else 0.0) or 1.0)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


Calls: TypeAlias = Sequence[Sequence[Any]]
"""Outputs of each call."""


@dataclass(frozen=True)
class Comparison:
    """How one output fares, in the call that is worst.

    Attributes:
      index: of the output.
      error: its difference.
      limit: up to which it is right.
    """

    index: int
    error: float
    limit: float

    @property
    def is_equal(self) -> bool:
        return self.error <= self.limit

    @property
    def is_comparable(self) -> bool:
        return self.limit < INCOMPARABLE


def compare(
    found: Calls,
    expected: Calls,
    rounding: Iterable[Callable[[], Sequence[float] | None]],
    left_out: Collection[int] = (),
    *,
    tf32: bool = False,
) -> list[Comparison]:
    """Compares outputs over several calls.

    Args:
      found: outputs of each call, once or several times.
      expected: the same of the exported program, once.
      rounding: what rounding does to each output, as far as it can be told; each is asked only
        while some output is not explained.
      left_out: positions of outputs that are not compared.
      tf32: whether products of float32 may have rounded their operands to TF32, which has the
        digits of float16.
    """
    results = []
    expected = [*expected] * (len(found) // len(expected))
    for index, (ours, theirs) in enumerate(zip(*map(_by_output, (found, expected)), strict=True)):
        if index in left_out:
            continue
        error = max(difference(a, b) for a, b in zip(ours, theirs, strict=True))
        dtype = getattr(theirs[0], "dtype", None)
        dtype = torch.float16 if tf32 and dtype in (torch.float32, torch.complex64) else dtype
        resolution = RESOLUTION.get(dtype, 0.0) if dtype else 0.0
        results.append(Comparison(index, error, resolution))
    for ask in rounding:
        if all(result.is_equal for result in results):
            break
        known = ask()
        if known is None:
            continue
        results = [
            Comparison(
                result.index,
                result.error,
                max(result.limit, _TIMES_ROUNDING * known[result.index]),
            )
            for result in results
        ]
    return results


def _by_output(calls: Calls) -> list[tuple[Any, ...]]:
    return list(zip(*calls, strict=True))


def rounding_of(
    run: Callable[[type[Interpreter]], Calls],
    *,
    tf32: bool = False,
) -> list[Callable[[], Sequence[float] | None]]:
    """What rounding does to each output of `run`, estimated in two ways (see `comparison`).

    `run` gets the kind of interpreter that is to run the graph, and returns outputs by call.
    """

    def estimate(interpreter: type[Interpreter]) -> Sequence[float] | None:
        usual = run(Interpreter)
        try:
            other = run(interpreter)
        except (RuntimeError, TypeError, ValueError):
            return None  # an operator that double precision has not
        return [
            max(_rounding(ours, theirs) for ours, theirs in zip(ours_of, theirs_of, strict=True))
            for theirs_of, ours_of in zip(*map(_by_output, (usual, other)), strict=True)
        ]

    rounding = Tf32RoundingInterpreter if tf32 else RoundingInterpreter
    return [lambda: estimate(PreciseInterpreter), lambda: estimate(rounding)]


def _rounding(precise: Any, usual: Any) -> float:
    if isinstance(precise, torch.Tensor) and isinstance(usual, torch.Tensor):
        precise = precise.to(usual.dtype)
    error = difference(usual, precise)
    return error if error != float("inf") else 0.0
