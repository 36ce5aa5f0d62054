"""Integers divided element by element: by 0, by -1, and as they should be."""

from collections.abc import Callable

import torch

from tests.hostile.together import Case

T = torch.Tensor

_OPERATORS: dict[str, Callable[[T, T], T]] = {
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floor": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "fmod": torch.fmod,
}
_DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
#: More than a vector of any type holds, and a rest.
_COUNT = 85


def _cases(dtype: torch.dtype, name: str, operator: Callable[[T, T], T]) -> Case:
    signed = torch.iinfo(dtype).min < 0
    a = torch.arange(_COUNT).sub(40 if signed else 0).to(dtype)
    b = torch.tensor([1, -2, 3, -1, 7] if signed else [1, 2, 3, 5, 7])
    b = b.repeat(_COUNT)[:_COUNT].to(dtype)
    others = []
    for position in (0, 40, _COUNT - 1):
        zero, least, minus = b.clone(), a.clone(), b.clone()
        zero[position] = 0
        least[position] = torch.iinfo(dtype).min
        minus[position] = -1 if signed else 1
        others += [(a, zero), (least, minus)]

    def does_not_fit(a: T, b: T) -> bool:
        least = (a == torch.iinfo(dtype).min) & (b == -1)
        return signed and name in ("trunc", "floor") and bool(least.any())

    return Case(f"{name} {dtype}", operator, (a, b), others, refuses=does_not_fit)


CASES = [_cases(dtype, *item) for dtype in _DTYPES for item in _OPERATORS.items()]


def _rows(a: T, b: T) -> T:
    return (a // b).sum(0)


def _by_a_number(a: T, b: T) -> T:
    return b % a.flatten()[0].unsqueeze(0)


CASES += [
    Case(
        "in a sum",
        _rows,
        (torch.arange(85).view(17, 5), torch.ones(17, 5, dtype=torch.int64)),
        [(torch.arange(85).view(17, 5), torch.zeros(17, 5, dtype=torch.int64))],
    ),
    Case(
        "by one number",
        _by_a_number,
        (torch.ones(3, dtype=torch.int64), torch.arange(40)),
        [(torch.zeros(3, dtype=torch.int64), torch.arange(40))],
    ),
]
