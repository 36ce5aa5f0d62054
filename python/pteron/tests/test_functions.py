"""torch's functions that are computed by others, so that torch.export takes them."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import pteron
from pteron.runtime import Runtime

M, N = Dim("m", min=2, max=20), Dim("n", max=20)


class Statistics(nn.Module):
    def forward(self, x: torch.Tensor, counts: torch.Tensor, weights: torch.Tensor) -> Any:
        return (
            torch.cov(x),
            torch.cov(x, correction=0, fweights=counts),
            x.cov(fweights=counts, aweights=weights),
            torch.cov(x[0], aweights=weights),
            torch.cov(counts),
            torch.corrcoef(x),
            torch.corrcoef(x[1]),
            torch.cov(torch.complex(x, x.flip(1))),
            torch.corrcoef(torch.complex(x, x.flip(1))),
        )


class Windows(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        n = x.shape[1]
        return (
            torch.hann_window(n),
            torch.hann_window(n, periodic=False, dtype=torch.float64),
            torch.hamming_window(n, True, 0.6),
            torch.hamming_window(n, False, alpha=0.5, beta=0.4),
            torch.blackman_window(n),
            torch.blackman_window(n + 1, False),
            torch.logspace(0, 1, n),
            torch.logspace(-1, x[0, 0], 2 * n, base=2),
            torch.linspace(0, 10, n, dtype=torch.int64),
            torch.linspace(7, -7, n, dtype=torch.int32),
        )


class Pairs(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        m, n = x.shape
        return (
            torch.kron(x, x[:2]),
            torch.kron(x, x[0, :2]),
            torch.kron(x[0], x.new_ones(2, 3, 1)),
            x[tuple(torch.tril_indices(m, n))],
            torch.triu_indices(m, n, offset=1),
            torch.tril_indices(n, n, -1, dtype=torch.int32),
            torch.combinations(x[0]),
            torch.combinations(x[1], 2, True),
            torch.tensor_split(x, 3, dim=1),
            x.tensor_split((1, 4, 3, -1), 1),
        )


@pytest.mark.parametrize(
    "kind, is_dynamic", [(Statistics, False), (Statistics, True), (Windows, True), (Pairs, True)]
)
def test_functions(kind: type[nn.Module], is_dynamic: bool, tmp_path: Path) -> None:
    def inputs(m: int, n: int) -> tuple[torch.Tensor, ...]:
        every = torch.randn(m, n), torch.randint(1, 4, (n,)), torch.rand(n) + 0.1
        return every if kind is Statistics else every[:1]

    model, path = kind().eval(), tmp_path / "model.pte"
    shapes: Any = ({0: M, 1: N}, {0: N}, {0: N})[: 3 if kind is Statistics else 1]
    pteron.export(model, inputs(4, 9), path, dynamic_shapes=shapes if is_dynamic else None)
    method = Runtime.get().load_program(path).load_method("forward")
    for m, n in [(4, 9), (2, 20), (19, 4), (5, 5)] if is_dynamic else [(4, 9)] * 2:
        given = inputs(m, n)
        torch.testing.assert_close(tuple(method(*given)), model(*given), equal_nan=True)


class UnevenWindows(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return F.adaptive_max_pool2d(x, (3, 5), return_indices=True)


def test_the_last_nan_of_a_window_counts(tmp_path: Path) -> None:
    model, path = UnevenWindows(), tmp_path / "model.pte"
    x = torch.randn(2, 3, 9, 8)
    pteron.export(model.eval(), (x,), path)
    method = Runtime.get().load_program(path).load_method("forward")
    for chance in (0.0, 0.3, 0.9):
        given = torch.where(torch.rand(x.shape) < chance, torch.nan, x)
        torch.testing.assert_close(method(given), model(given), rtol=0, atol=0, equal_nan=True)
