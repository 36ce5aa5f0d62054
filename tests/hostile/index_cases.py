"""Tensors of indices, as every operator takes them that eager has: negative ones, and beyond."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from tests.hostile.together import Case

T = torch.Tensor

_X = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
_ONES = torch.ones(3, 8)
_FAR = (64, -1, -64, -65, 2**31, -(2**31), 2**40, 2**62, -(2**63), 2**63 - 1)


def _indices(last: int) -> T:
    return torch.tensor([1, 2, last])


def _case(
    name: str, function: Callable[..., T], *before: T, last: int = 63, **options: Any
) -> Case:
    """`function` of `before` and three indices."""
    others = [(*before, _indices(number)) for number in (last, *_FAR)]
    return Case(name, function, (*before, _indices(3)), others, **options)


def _shaped(name: str, function: Callable[..., T], *before: T, shape: tuple[int, ...]) -> Case:
    """The same with indices of another shape, all alike."""
    others = [(*before, torch.full(shape, number)) for number in (7, *_FAR)]
    return Case(name, function, (*before, torch.zeros(shape, dtype=torch.int64)), others)


def _repeat(x: T, repeats: T) -> T:
    return torch.repeat_interleave(x, repeats, dim=0, output_size=16)


def _put(self: Any, k: T, i: T) -> T:
    self.rows[i] = k
    return self.rows + 1


def _put_copy(self: Any, k: T, i: T) -> T:
    self.rows.index_copy_(0, i, k)
    return self.rows + 1


def _solved(lu: T, pivots: T, b: T) -> T:
    return torch.linalg.lu_solve(lu, pivots, b)


_MATRIX = _X[:8] + 8 * torch.eye(8)
_LU, _PIVOTS = torch.linalg.lu_factor(_MATRIX)


def _pivots(row: int) -> T:
    pivots = _PIVOTS.clone()
    pivots[3] = row
    return pivots


_ROWS = {"rows": torch.zeros(32, 8)}
_REPEATS = torch.full((8,), 2)

CASES = [
    _case("index", lambda x, i: x[i] * 2, _X),
    _case("index of columns", lambda x, i: x[:, i] * 2, _X, last=7),
    _case("index select", lambda x, i: torch.index_select(x, 0, i) + 1, _X),
    _case("index select columns", lambda x, i: torch.index_select(x, 1, i) + 1, _X, last=7),
    _case("index add", lambda x, v, i: x.index_add(0, i, v), _X, _ONES),
    _case("index copy", lambda x, v, i: x.index_copy(0, i, v), _X, _ONES),
    _case("index fill", lambda x, i: x.index_fill(0, i, 2.0), _X),
    _case("index put", lambda x, v, i: x.index_put((i,), v), _X, _ONES),
    _case("index put and add", lambda x, v, i: x.index_put((i,), v, accumulate=True), _X, _ONES),
    _case("take", lambda x, i: torch.take(x, i), _X, last=511),
    _case("embedding", lambda w, i: functional.embedding(i, w) * 2, _X),
    _case("one hot", lambda i: functional.one_hot(i, 64) + 1),
    _case("put in state", _put, _ONES, last=31, state=_ROWS),
    _case("copied to state", _put_copy, _ONES, last=31, state=_ROWS),
    _shaped("gather", lambda x, i: torch.gather(x, 0, i) * 2, _X, shape=(5, 8)),
    _shaped("gather columns", lambda x, i: torch.gather(x, 1, i) * 2, _X, shape=(64, 3)),
    _shaped("take along", lambda x, i: torch.take_along_dim(x, i, 0), _X, shape=(4, 8)),
    _shaped("scatter", lambda x, i: x.scatter(0, i, 1.5), _X, shape=(5, 8)),
    _shaped("scatter and add", lambda x, i: x.scatter_add(0, i, x[:5]), _X, shape=(5, 8)),
    _shaped(
        "scatter and reduce", lambda x, i: x.scatter_reduce(0, i, x[:5], "amax"), _X, shape=(5, 8)
    ),
    Case(
        "pivots",
        _solved,
        (_LU, _PIVOTS, _X[:8].clone()),
        [(_LU, _pivots(row), _X[:8].clone()) for row in (4, 8, 9, 0, -1, 2**31 - 1, -(2**31))],
    ),
    Case(
        "repeat",
        _repeat,
        (_X[:8].clone(), _REPEATS),
        [
            (_X[:8].clone(), torch.tensor(repeats))
            for repeats in (
                [3] * 8,
                [1] * 8,
                [-1] * 8,
                [0] * 7 + [16],
                [0] * 7 + [2**40],
                [4] * 4 + [0] * 4,
                [-2, 18] + [0] * 6,
            )
        ],
    ),
]
