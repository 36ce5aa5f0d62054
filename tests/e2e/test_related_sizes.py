"""Sizes that are made of others: what export allows runs, and what it excludes is refused."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from pteron.runtime import InvalidArgumentError
from tests.e2e.lowering import lower_to_file

Function = Callable[..., Any]


class Module(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*(x * self.scale for x in args))


def auto(*bounds: int) -> tuple[dict[int, Any], ...]:
    return tuple({0: Dim.AUTO(max=bound)} for bound in bounds)  # type: ignore[operator]


def h(least: int = 1) -> Any:
    return Dim("h", min=least, max=9)


def patches(x: torch.Tensor) -> torch.Tensor:
    """Attention over the patches of images of any size, and one more token."""
    parts = x.unflatten(3, (-1, 4)).unflatten(2, (-1, 4)).permute(0, 2, 4, 1, 3, 5)
    tokens = parts.flatten(3).flatten(1, 2)
    tokens = torch.cat([tokens.new_ones(x.shape[0], 1, tokens.shape[2]), tokens], 1)
    query, key, value = tokens.repeat(1, 1, 3).unflatten(2, (3, 2, -1)).permute(2, 0, 3, 1, 4)
    return functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


def branches(a: torch.Tensor, b: torch.Tensor) -> Any:
    """Has a guard of each kind, which the program has to check."""
    m, n = a.shape[0], b.shape[0]
    conditions: list[Any] = [
        m != 9,
        m * m < 200,
        m / 4 > 1.2,
        0.5 * n < 6.2,
        math.ceil(n / 4) < 4,
        math.trunc(m / 3) < 4,
        round(m / 3) < 5,
        (m > 6) | (n < 4),
        ((m > 7) & (n > 4)) | (n - m < 2),
        n % 5 != 1,
    ]
    return [a + 1 if condition else a - 1 for condition in conditions], b.cumsum(0)


# Name: function, sizes of the example, dynamic shapes, sizes that work, sizes that do not.
CASES: dict[str, tuple[Function, Any, Any, list[Any], list[Any]]] = {
    "4h": (torch.relu, [(8,)], [{0: 4 * h()}], [(4,), (8,), (36,)], [(5,), (0,), (2,), (40,)]),
    "4h_from_0": (torch.relu, [(8,)], [{0: 4 * h(0)}], [(0,), (4,), (36,)], [(5,), (2,), (40,)]),
    "4h_from_3": (torch.relu, [(20,)], [{0: 4 * h(3)}], [(12,), (36,)], [(8,), (13,)]),
    "h+1": (torch.relu, [(8,)], [{0: h() + 1}], [(2,), (3,), (10,)], [(1,), (11,)]),
    "h-1": (torch.relu, [(5,)], [{0: h(3) - 1}], [(2,), (8,)], [(1,), (9,)]),
    "4h-3": (torch.relu, [(9,)], [{0: 4 * h() - 3}], [(1,), (5,), (33,)], [(2,), (4,), (37,)]),
    "columns": (
        lambda x: x.softmax(1).t(),
        [(3, 8)],
        [{1: 4 * h()}],
        [(3, 4), (3, 36)],
        [(3, 6), (4, 8), (3, 0)],
    ),
    "patches": (
        patches,
        [(2, 3, 8, 12)],
        [{0: Dim("b", max=5), 2: 4 * h(2), 3: 4 * Dim("w", min=2, max=9)}],
        [(1, 3, 12, 8), (5, 3, 36, 36), (3, 3, 8, 20)],
        [(1, 3, 12, 10), (1, 3, 4, 8), (6, 3, 8, 12)],
    ),
    "2h_and_h": (
        lambda x, y: torch.cat([y, y]) + x,
        [(8,), (4,)],
        [{0: 2 * h()}, {0: h()}],
        [((2,), (1,)), ((18,), (9,))],
        [((3,), (1,)), ((4,), (1,)), ((20,), (10,))],
    ),
    "2h_and_h+1": (
        lambda x, y: (x.cumsum(0), y * 2, torch.cat([x, y])),
        [(8,), (5,)],
        [{0: 2 * h()}, {0: h() + 1}],
        [((2,), (2,)), ((18,), (10,))],
        [((2,), (3,)), ((3,), (2,))],
    ),
    "product": (
        lambda a, b, x: x.reshape(a.shape[0], b.shape[0]) * a[:, None] * b,
        [(4,), (6,), (24,)],
        auto(8, 8, 64),
        [((3,), (5,), (15,)), ((2,), (2,), (4,))],
        [((3,), (5,), (14,)), ((3,), (5,), (16,)), ((4,), (6,), (64,))],
    ),
    "sum": (
        lambda a, b, c: torch.cat([a, b]) * c,
        [(4,), (6,), (10,)],
        auto(8, 8, 16),
        [((2,), (3,), (5,)), ((8,), (8,), (16,))],
        [((2,), (3,), (4,)), ((2,), (3,), (6,))],
    ),
    "flat": (
        lambda a, b: a.flatten() * b,
        [(4, 6), (24,)],
        [{0: Dim.AUTO(max=8), 1: Dim.AUTO(max=8)}, {0: Dim.AUTO(max=64)}],  # type: ignore[operator]
        [((2, 5), (10,)), ((8, 8), (64,))],
        [((2, 5), (11,)), ((2, 5), (7,))],
    ),
    "half": (
        lambda a, b: a[::2] * b,
        [(9,), (5,)],
        auto(40, 40),
        [((8,), (4,)), ((7,), (4,)), ((40,), (20,))],
        [((8,), (5,)), ((7,), (3,)), ((40,), (2,))],
    ),
    "pairs": (lambda a: a.reshape(-1, 2).sum(-1), [(8,)], auto(40), [(4,), (40,)], [(5,), (39,)]),
    "pairs_and_more": (
        lambda a, b: a.reshape(-1, 2).sum(-1) * b,
        [(8,), (4,)],
        auto(40, 40),
        [((12,), (6,))],
        [((12,), (7,)), ((13,), (6,)), ((12,), (5,))],
    ),
    "convolution": (
        lambda a, b: torch.conv1d(a.reshape(1, 1, -1), b.new_ones(1, 1, 3), None, 2, 1) + b,
        [(9,), (5,)],
        auto(40, 40),
        [((11,), (6,)), ((12,), (6,))],
        [((11,), (5,)), ((11,), (7,))],
    ),
    "at_least": (
        lambda a, b: (a.narrow(0, 0, b.shape[0]) + b).exp(),
        [(9,), (5,)],
        auto(40, 40),
        [((11,), (5,)), ((40,), (39,))],
        [((5,), (11,))],
    ),
    "branches": (
        branches,
        [(8,), (5,)],
        auto(40, 40),
        [((7,), (4,)), ((6,), (3,)), ((11,), (12,))],
        [((size,), (5,)) for size in (4, 9, 12, 13, 15)]
        + [((8,), (size,)) for size in (13, 12 + 40, 6)]
        + [((6,), (5,)), ((7,), (10,))],
    ),
    "only_sizes": (
        lambda a, b, c, d: a + 1 if a.shape[0] > b.shape[0] and c.shape[0] == 2 else a - c.numel(),
        [(6,), (5,), (2,), (4,)],
        [{0: Dim.AUTO(max=8)}, {0: Dim.AUTO(max=8)}, {}, {0: Dim("d", min=3, max=8)}],  # type: ignore[operator]
        [((5,), (4,), (2,), (3,))],
        [((5,), (5,), (2,), (3,)), ((5,), (4,), (3,), (3,)), ((5,), (4,), (2,), (2,))],
    ),
    "only_equal_sizes": (
        lambda a, b, c: a + 1 if b.shape[0] == a.shape[0] == 2 * c.shape[0] else a - 1,
        [(6,), (6,), (3,)],
        auto(8, 8, 8),
        [((8,), (8,), (4,))],
        [((8,), (6,), (4,)), ((8,), (8,), (3,)), ((7,), (7,), (3,))],
    ),
}


def inputs_of(sizes: Any) -> list[torch.Tensor]:
    several = isinstance(sizes, list) or (len(sizes) > 0 and isinstance(sizes[0], tuple))
    return [torch.randn(size) for size in (sizes if several else [sizes])]


@pytest.mark.parametrize("name", CASES)
def test_sizes(name: str, tmp_path: Path) -> None:
    function, example, shapes, right, wrong = CASES[name]
    torch.manual_seed(0)
    module = Module(function).eval()
    args = tuple(inputs_of(example))
    program = torch.export.export(module, args, dynamic_shapes=(tuple(shapes),))
    method = lower_to_file(program, tmp_path / "model.pte").load_method("forward")
    # In turns, so that a refusal has no effect on the next call.
    for good, bad in itertools.zip_longest([example, *right], wrong):
        if bad is not None:
            with pytest.raises(InvalidArgumentError, match="size|dimension"):
                method.execute(inputs_of(bad))
        if good is not None:
            given = inputs_of(good)
            with torch.no_grad():
                expected = torch.utils._pytree.tree_leaves(module(*given))
            found = method.execute(given)
            for x, y in zip(found, expected, strict=True):
                torch.testing.assert_close(x, y)


def test_an_error_names_the_inputs(tmp_path: Path) -> None:
    class Product(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
            return grid.reshape(a.shape[0], b.shape[0]) * a[:, None] * b

    args = (torch.randn(4), torch.randn(6), torch.randn(24))
    program = torch.export.export(Product(), args, dynamic_shapes=auto(8, 8, 64))
    method = lower_to_file(program, tmp_path / "model.pte").load_method("forward")
    with pytest.raises(InvalidArgumentError) as refused:
        method.execute([torch.randn(4), torch.randn(6), torch.randn(23)])
    assert "grid.size(0) == a.size(0)*b.size(0)" in str(refused.value)
    assert "found 23 and 24" in str(refused.value)
