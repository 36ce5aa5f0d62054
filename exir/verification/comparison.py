"""Whether two results are equal but for rounding, element by element.

An element is right if it differs by no more than the `RESOLUTION` of its dtype, relative to itself
or what is around it, or by ten times what rounding does to this very element of this very model.
That is estimated from the exported program alone: it runs with every result changed in the last
place, several times, and in double precision. Integers and booleans are right if they are equal,
or if rounding changes this element, too. What is around an element is, of all rows, columns and so
on that it is in, the one with the smallest values, so that nothing hides behind what is large.
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
    PreciseInterpreter,
    RoundingInterpreter,
    around,
)

RESOLUTION = {
    torch.float64: 1e-12,
    torch.complex128: 1e-12,
    torch.float32: 2e-6,
    torch.complex64: 2e-6,
    torch.float16: 1e-3,
    torch.bfloat16: 8e-3,
}
"""Differences that need no explanation; other dtypes have to be equal."""

_LOG = logging.getLogger(__name__)

TIMES_ROUNDING = 10
"""An element may differ by so many times what rounding does to it."""

_FURTHER = 5
"""Where that does not explain a difference, inputs and results are changed by so many ULP:
a choice between two turns over more often."""

Calls: TypeAlias = Sequence[Sequence[Any]]
"""Outputs of each call."""

Errors: TypeAlias = Sequence[Sequence[torch.Tensor | None]]
"""What rounding does to each element of each output of each call, as `errors` has it."""

Samples: TypeAlias = Sequence[Callable[[], Errors | None]]
"""Ways to tell; None where one fails."""


def errors(found: Any, expected: Any) -> torch.Tensor | None:
    """How far each element is off, in double; inf where one is finite and the other is not, or
    where they are infinite in other directions.

    NaN and an infinite one are equal: `inf - inf` depends on the order in which terms are added.

    None where these are not comparable: another type, dtype or number of elements.
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
    """How one output fares, by its worst element in the call that is worst.

    Attributes:
      index: of the output.
      error: how far the element is off, relative to the largest that is expected.
      limit: up to which it is right, likewise.
      is_comparable: whether at most half of the elements are lost to rounding.
      wrong: how many elements are.
      what: the worst element, and what was found and expected there.
      call: the position among the calls that were compared.
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
    """One output in all calls; `rounding` is the largest known of each call's elements."""

    def __init__(self, index: int, found: Sequence[Any], expected: Sequence[Any], tf32: bool):
        self._index, self._found, self._expected = index, found, expected
        self._errors = [
            errors(ours, expected[call % len(expected)]) for call, ours in enumerate(found)
        ]
        self._floors = [_floor(value, tf32) for value in expected]
        self._rounding: list[torch.Tensor | None] = [torch.zeros_like(f) for f in self._floors]

    def add(self, calls: Errors) -> None:
        """Takes more of what rounding does into account."""
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
        rounding = around(rounding) if is_float else rounding
        return torch.maximum(self._floors[call], TIMES_ROUNDING * rounding)

    def compared(self) -> Comparison:
        """By the worst of all calls."""
        return max(map(self._compared, range(len(self._found))), key=_badness)

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
        # Of those that are wrong the worst, or of all.
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


def _badness(comparison: Comparison) -> tuple[bool, float]:
    return comparison.wrong > 0, comparison.error / (comparison.limit or 1.0)


def _dtype(value: Any) -> torch.dtype | None:
    """Python's floats come from tensors of any precision; what rounding does tells which."""
    if isinstance(value, torch.Tensor):
        return value.dtype
    return torch.float64 if isinstance(value, float) else None


def _magnitude(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return (value.abs() if value.is_complex() else value.double().abs()).double()
    number = abs(value) if isinstance(value, int | float) else 0.0
    return torch.tensor(number, dtype=torch.float64)


def _floor(expected: Any, tf32: bool) -> torch.Tensor:
    """What each element may be off by without more being known of rounding."""
    dtype = _dtype(expected)
    if tf32 and dtype in (torch.float32, torch.complex64):
        dtype = torch.float16
    resolution = RESOLUTION.get(dtype, 0.0) if dtype else 0.0
    return resolution * around(_magnitude(expected)).nan_to_num_(nan=0.0, posinf=0.0)


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
    outputs = [
        _Output(index, ours, theirs, tf32)
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
    tf32: bool = False,
) -> Samples:
    """What rounding does to each output of `run`, by several samples (see `comparison`).

    `run` gets the kind of interpreter that is to run the graph, and returns outputs by call.
    """
    usual = functools.cache(lambda: run(Interpreter))

    def sample(
        other: Callable[[], Calls], judge: Callable[[Any, Any], torch.Tensor | None]
    ) -> Errors | None:
        try:
            calls = other()
        except Exception as error:
            # Double precision lacks an operator, an index is beyond the end, torch cannot decompose
            # it: then the other samples have to explain what there is.
            _LOG.debug("a sample of rounding failed: %s", error)
            return None
        return [
            [judge(ours, theirs) for ours, theirs in zip(*outputs, strict=True)]
            for outputs in zip(usual(), calls, strict=True)
        ]

    def attention_as_products() -> Calls:
        # Torch's fused kernels of the CPU give 0 for some rows of NaN, and NaN for others.
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return run(Interpreter)

    def rounded(seed: int, scale: float = 1) -> Callable[[], Errors | None]:
        kind = functools.partial(RoundingInterpreter, seed=seed, scale=scale, tf32=tf32)
        judge = functools.partial(_rounding, scale=scale)
        return functools.partial(sample, functools.partial(run, kind), judge)

    return [
        *(rounded(seed) for seed in range(2)),
        functools.partial(sample, functools.partial(run, PreciseInterpreter), _rounding),
        functools.partial(sample, attention_as_products, _rounding),
        *(rounded(seed, _FURTHER) for seed in range(2, 10)),
    ]


def _rounding(usual: Any, other: Any, scale: float = 1) -> torch.Tensor | None:
    if isinstance(other, torch.Tensor) and isinstance(usual, torch.Tensor):
        other = other.to(usual.dtype)
    off = errors(other, usual)
    return off / scale if off is not None else None
