"""What passes for rounding, and what does not."""

import math
from typing import Any

import pytest
import torch

from pteron.exir.verification.comparison import (
    INCOMPARABLE,
    RESOLUTION,
    compare,
    difference,
    rounding_of,
)

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        (torch.tensor([1.0, 4.0]), torch.tensor([1.0, 4.0]), 0),
        (torch.tensor([1.0, 3.0]), torch.tensor([1.0, 4.0]), 0.25),
        (torch.tensor([0.5]), torch.tensor([0.0]), 0.5),
        (torch.tensor([NAN, 4.0]), torch.tensor([NAN, 4.0]), 0),
        (torch.tensor([NAN, 4.0]), torch.tensor([1.0, 4.0]), INF),
        (torch.tensor([1.0, 4.0]), torch.tensor([NAN, 4.0]), INF),
        (torch.tensor([INF, 4.0]), torch.tensor([INF, 2.0]), 1),
        (torch.tensor([-INF]), torch.tensor([INF]), INF),
        (torch.tensor([1.0]), torch.tensor([1.0, 2.0]), INF),
        (torch.tensor([1.0]), torch.tensor([1.0]).double(), INF),
        (torch.tensor([1, 2, 3, 5]), torch.tensor([1, 2, 3, 4]), 0.25),
        (torch.tensor([True]), torch.tensor([True]), 0),
        (torch.empty(0), torch.empty(0), 0),
        (torch.tensor([1 + 3j]), torch.tensor([1 + 2j]), 1 / abs(1 + 2j)),
        (3, 3, 0),
        (3, 4, INF),
        (3, 3.0, INF),
        (None, None, 0),
        (NAN, NAN, 0),
        (3, torch.tensor(3), INF),
    ],
)
def test_difference(found: Any, expected: Any, error: float) -> None:
    assert difference(found, expected) == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("dtype", RESOLUTION)
def test_half_the_resolution_passes_and_twice_does_not(dtype: torch.dtype) -> None:
    expected = torch.ones(3, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    for factor, passes in ((0.5, True), (2, False)):
        found = expected * (1 + factor * RESOLUTION[dtype])
        (result,) = compare([[found.to(dtype)]], [[expected.to(dtype)]], [])
        # A unit in the last place of a 16-bit number is half of its resolution or more.
        assert result.is_equal == passes, f"{dtype}: {result}"


def test_rounding_is_asked_only_where_it_is_needed() -> None:
    def unwanted() -> list[float]:
        raise AssertionError("nothing is to be explained")

    x = torch.ones(3)
    assert all(r.is_equal for r in compare([[x, 1]], [[x, 1]], [unwanted]))
    (result,) = compare([[-x, 1]], [[x, 1]], [unwanted], left_out={0})
    assert result.index == 1 and result.is_equal


def test_the_worst_call_counts_and_rounding_explains_ten_times_itself() -> None:
    x = torch.ones(3)
    calls = [[x, x], [x * 1.01, x]]
    for rounding, passes in (([1e-4, 0.0], False), ([1.1e-3, 0.0], True)):
        first, second = compare(calls, [[x, x], [x, x]], [lambda: None, lambda r=rounding: r])
        assert first.error == pytest.approx(0.01, rel=1e-3)
        assert first.is_equal == passes and second.is_equal
        assert first.is_comparable


def test_indices_that_rounding_turns_over() -> None:
    found, expected = torch.tensor([0, 1, 3, 2]), torch.tensor([0, 1, 2, 3])
    (result,) = compare([[found]], [[expected]], [lambda: [0.0]])
    assert not result.is_equal
    (result,) = compare([[found]], [[expected]], [lambda: [0.0], lambda: [0.05]])
    assert result.is_equal


def test_what_rounding_changes_beyond_recognition_is_not_comparable() -> None:
    x = torch.ones(3)
    (result,) = compare([[x]], [[-x]], [lambda: [INCOMPARABLE]])
    assert not result.is_comparable


def test_tf32_has_the_digits_of_float16() -> None:
    x = torch.ones(3)
    (result,) = compare([[x * 1.001]], [[x]], [])
    assert not result.is_equal
    (result,) = compare([[x * 1.001]], [[x]], [], tf32=True)
    assert result.is_equal
    (result,) = compare([[x * 1.004]], [[x]], [], tf32=True)
    assert not result.is_equal
    (result,) = compare([[x.double() * 1.001]], [[x.double()]], [], tf32=True)
    assert not result.is_equal


class Cancelled(torch.nn.Module):
    """Whose rounding is a thousand times as large, relative to what it returns."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + 1000 - 1000


def test_rounding_of_tf32_is_larger() -> None:
    module, x = torch.fx.symbolic_trace(Cancelled()), torch.linspace(0, 1, 9)
    by_last_place = []
    for tf32 in (False, True):
        _, last_place = rounding_of(lambda kind: [[kind(module).run(x)]], tf32=tf32)
        (error,) = last_place() or ()
        by_last_place.append(error)
    assert by_last_place[1] > 1000 * by_last_place[0] > 0
