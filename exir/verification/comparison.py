"""Compares outputs element by element, up to rounding.

An element is accepted if it differs by at most the `RESOLUTION` of its dtype, relative to itself or
the magnitude around it, or by ten times the effect of rounding on this element of this model. That
effect is estimated from the exported program alone: it runs several times with every result
perturbed by an ULP, and in float64. Integers and bools are accepted if they are equal, or if
rounding changes this element too. The magnitude around an element is that of the slice along one
dimension (row, column, ...) with the smallest values, so that errors are not hidden by large values
elsewhere.
"""

import functools
import logging
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.fx import Interpreter

from pteron.exir.verification.interpreters import (
    AttentionInterpreter,
    LastInterpreter,
    PreciseInterpreter,
    RoundingInterpreter,
    typical_magnitude,
)

RESOLUTION = {
    torch.float64: 1e-12,
    torch.complex128: 1e-12,
    torch.float32: 2e-6,
    torch.complex64: 2e-6,
    torch.float16: 1e-3,
    torch.bfloat16: 8e-3,
}
"""Tolerance without estimating rounding; other dtypes must be equal."""

_LOG = logging.getLogger(__name__)

TIMES_ROUNDING = 10
"""An element may differ by this multiple of the effect of rounding."""

_FURTHER = 5
"""If that does not explain a difference, inputs and results are perturbed by this many ULP, so that
comparisons flip more often."""

_OF_LAST = 4
"""Samples of the effect of the last operators alone, which come first, as they take the least."""

Calls: TypeAlias = Sequence[Sequence[Any]]
"""Outputs of each call."""

Errors: TypeAlias = Sequence[Sequence[torch.Tensor | None]]
"""The effect of rounding on each element of each output of each call, in the form of `errors`."""

Samples: TypeAlias = Sequence[Callable[[], Errors | None]]
"""Estimators; None if one fails."""


def errors(found: Any, expected: Any) -> torch.Tensor | None:
    """The error of each element, in float64; inf if only one is finite, or if they are infinities
    of different sign.

    NaN and infinity count as equal, since `inf - inf` depends on summation order.

    None if they are not comparable: different type, dtype or number of elements.
    """
    if not isinstance(expected, torch.Tensor):
        if type(found) is not type(expected):
            return None
        if not isinstance(expected, int | float):
            return torch.tensor(0.0 if found == expected else math.inf, dtype=torch.float64)
        dtype = torch.float64 if isinstance(expected, float) else None
        found, expected = (torch.tensor(value, dtype=dtype) for value in (found, expected))
    if not isinstance(found, torch.Tensor):
        return None
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return None
    same = found == expected
    if expected.dtype not in RESOLUTION:
        return (found.double() - expected.double()).abs_().clamp_(min=1).masked_fill_(same, 0)
    wide = torch.complex128 if expected.is_complex() else torch.float64
    same |= found.isnan() & ~expected.isfinite() | expected.isnan() & ~found.isfinite()
    off = (found.to(wide) - expected.to(wide)).abs()
    return off.nan_to_num_(nan=math.inf, posinf=math.inf).masked_fill_(same, 0)


@dataclass(frozen=True)
class Comparison:
    """The comparison of one output, by its worst element in the worst call.

    Attributes:
      index: position of the output.
      error: error of the element, relative to the largest expected magnitude.
      limit: its tolerance, likewise.
      is_comparable: whether rounding dominates at most half of the elements.
      wrong: number of wrong elements.
      what: the worst element, with its found and expected value.
      call: position of the call.
    """

    index: int
    error: float
    limit: float
    is_comparable: bool = True
    wrong: int = 0
    what: str = ""
    call: int = 0

    @property
    def is_equal(self) -> bool:
        return self.wrong == 0


class _Output:
    """One output in all calls; `rounding` is the largest known effect per element of each call."""

    def __init__(
        self,
        index: int,
        found: Sequence[Any],
        expected: Sequence[Any],
        products: torch.dtype | None,
    ):
        self._index, self._found, self._expected = index, found, expected
        self._errors = [
            errors(ours, expected[call % len(expected)]) for call, ours in enumerate(found)
        ]
        self._floors = [_floor(value, products) for value in expected]
        self._rounding: list[torch.Tensor | None] = [torch.zeros_like(f) for f in self._floors]

    def add(self, calls: Errors) -> None:
        """Adds another estimate of rounding."""
        for call, of_outputs in enumerate(calls):
            known, more = self._rounding[call], of_outputs[self._index]
            if known is None or more is None:
                self._rounding[call] = None
            else:
                self._rounding[call] = torch.maximum(known, more)

    def _limit(self, call: int) -> torch.Tensor:
        call %= len(self._expected)
        rounding = self._rounding[call]
        if rounding is None:
            return torch.full_like(self._floors[call], math.inf)
        is_float = _dtype(self._expected[call]) in RESOLUTION
        rounding = typical_magnitude(rounding) if is_float else rounding
        return torch.maximum(self._floors[call], TIMES_ROUNDING * rounding)

    def compared(self) -> Comparison:
        """The result for the worst call."""
        return max(map(self._compared, range(len(self._found))), key=_severity)

    @property
    def is_equal(self) -> bool:
        return all(self._compared(call).is_equal for call in range(len(self._found)))

    def _compared(self, call: int) -> Comparison:
        off, limit = self._errors[call], self._limit(call)
        found, expected = self._found[call], self._expected[call % len(self._expected)]
        if off is None:
            lost = self._rounding[call % len(self._expected)] is None
            what = f"is {_kind(found)} instead of {_kind(expected)}"
            bound = math.inf if lost else 0.0
            return Comparison(self._index, math.inf, bound, True, int(not lost), what, call)
        if off.numel() == 0:
            return Comparison(self._index, 0.0, 0.0, call=call)
        largest = _magnitude(expected).nan_to_num(nan=0.0, posinf=0.0).max().item() or 1.0
        is_wrong = off > limit
        # The worst among the wrong elements, or among all.
        worst = int((off / limit).nan_to_num(nan=0.0, posinf=math.inf).argmax())
        error, bound = off.flatten()[worst].item(), limit.flatten()[worst].item()
        what = f"is {_element(found, worst)} instead of {_element(expected, worst)}"
        if off.dim():
            where = torch.unravel_index(torch.tensor(worst), off.shape)
            what = f"{[int(i) for i in where]} {what}"
        lost = _dtype(expected) in RESOLUTION and (limit >= largest).double().mean().item() > 0.5
        return Comparison(
            self._index,
            error / largest,
            bound / largest,
            not lost,
            int(is_wrong.sum()),
            what,
            call,
        )


def _severity(comparison: Comparison) -> tuple[bool, float]:
    return comparison.wrong > 0, comparison.error / (comparison.limit or 1.0)


def _dtype(value: Any) -> torch.dtype | None:
    """Python floats come from tensors of any precision, which the effect of rounding reveals."""
    if isinstance(value, torch.Tensor):
        return value.dtype
    return torch.float64 if isinstance(value, float) else None


def _magnitude(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return (value.abs() if value.is_complex() else value.double().abs()).double()
    number = abs(value) if isinstance(value, int | float) else 0.0
    return torch.tensor(number, dtype=torch.float64)


def _floor(expected: Any, products: torch.dtype | None) -> torch.Tensor:
    """The tolerance of each element without an estimate of rounding."""
    dtype = _dtype(expected)
    if products and dtype in (torch.float32, torch.complex64):
        dtype = products
    resolution = RESOLUTION.get(dtype, 0.0) if dtype else 0.0
    return resolution * typical_magnitude(_magnitude(expected)).nan_to_num_(nan=0.0, posinf=0.0)


def _kind(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _element(value: Any, index: int) -> str:
    value = value.flatten()[index].item() if isinstance(value, torch.Tensor) else value
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def compare(
    found: Calls,
    expected: Calls,
    rounding: Samples,
    left_out: Collection[int] = (),
    *,
    products: torch.dtype | None = None,
) -> list[Comparison]:
    """Compares outputs over several calls.

    Args:
      found: outputs of each call, once or several times.
      expected: outputs of each call of the exported program, once.
      rounding: estimators of the effect of rounding; called one by one while some output is not
        explained.
      left_out: positions of outputs to skip.
      products: whose precision operands of float32 matmuls may have: float16 for TF32, or bfloat16.
    """
    outputs = [
        _Output(index, ours, theirs, products)
        for index, (ours, theirs) in enumerate(
            zip(zip(*found, strict=True), zip(*expected, strict=True), strict=True)
        )
        if index not in left_out
    ]
    unexplained = [output for output in outputs if not output.is_equal]
    for ask in rounding:
        if not unexplained:
            break
        if (known := ask()) is not None:
            for output in unexplained:
                output.add(known)
            unexplained = [output for output in unexplained if not output.is_equal]
    return [output.compared() for output in outputs]


def rounding_of(
    run: Callable[[Callable[..., Interpreter]], Calls],
    *,
    products: torch.dtype | None = None,
) -> Samples:
    """Estimators of the effect of rounding on each output of `run` (see `comparison`).

    `run` takes the interpreter class and returns outputs by call.
    """
    usual = functools.cache(lambda: run(Interpreter))

    def sample(
        other: Callable[[], Calls], judge: Callable[[Any, Any], torch.Tensor | None]
    ) -> Errors | None:
        try:
            calls = other()
        except Exception as error:
            # A sample may fail: an operator lacks float64, an index is out of range, torch cannot
            # decompose it. Then the other samples must suffice.
            _LOG.debug("a sample of rounding failed: %s", error)
            return None
        return [
            [judge(ours, theirs) for ours, theirs in zip(*outputs, strict=True)]
            for outputs in zip(usual(), calls, strict=True)
        ]

    def attention(skip: bool) -> Callable[[], Errors | None]:
        kind = functools.partial(AttentionInterpreter, skip=skip)
        return functools.partial(sample, functools.partial(run, kind), _rounding)

    def rounded(seed: int, scale: float = 1) -> Callable[[], Errors | None]:
        kind = functools.partial(RoundingInterpreter, seed=seed, scale=scale, products=products)
        judge = functools.partial(_rounding, scale=scale)
        return functools.partial(sample, functools.partial(run, kind), judge)

    last = functools.partial(LastInterpreter, seeds=_OF_LAST, products=products)
    return [
        functools.partial(sample, functools.partial(run, last), _rounding),
        *(rounded(seed) for seed in range(2)),
        functools.partial(sample, functools.partial(run, PreciseInterpreter), _rounding),
        attention(skip=False),
        attention(skip=True),
        *(rounded(seed, _FURTHER) for seed in range(2, 10)),
    ]


def _rounding(usual: Any, other: Any, scale: float = 1) -> torch.Tensor | None:
    if isinstance(other, torch.Tensor) and isinstance(usual, torch.Tensor):
        other = other.to(usual.dtype)
    off = errors(other, usual)
    return off / scale if off is not None else None
