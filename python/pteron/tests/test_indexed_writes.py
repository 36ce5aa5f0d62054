"""Writes at an index that is a tensor: `buffer[position] = x`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pteron
from pteron.runtime import Method, PteronError, Runtime


def loaded(model: nn.Module, inputs: tuple[Any, ...], path: Path, **options: Any) -> Method:
    pteron.export(model, inputs, path, **options)
    return Runtime.get().load_program(path).load_method("forward")


class Ring(nn.Module):
    """The sum of the last three inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last[self.count % 3] = x
        self.count += 1
        return self.last.sum(0)


def test_ring_buffers(tmp_path: Path) -> None:
    model = Ring().eval()
    method = loaded(model, (torch.ones(4),), tmp_path / "model.pte")
    for _ in range(7):
        x = torch.randn(4)
        torch.testing.assert_close(method(x), model(x))


def to_mid(y: torch.Tensor, i: torch.Tensor, x: torch.Tensor) -> None:
    y[:, i] = x[:2, None].expand(2, 4)


def to_last(y: torch.Tensor, i: torch.Tensor, x: torch.Tensor) -> None:
    y[..., i] = x[0]


def to_part(y: torch.Tensor, i: torch.Tensor, x: torch.Tensor) -> None:
    y[i, :2, 0] = 1.5


def before_last(y: torch.Tensor, i: torch.Tensor, x: torch.Tensor) -> None:
    y[0, ..., i] = x[:3]


def with_ones(y: torch.Tensor, i: torch.Tensor, x: torch.Tensor) -> None:
    y[i,] = x.half()[None, None, None]


def in_steps(y: torch.Tensor, i: torch.Tensor, x: torch.Tensor) -> None:
    y[:2, i, ::2] = x[:2]


def added(y: torch.Tensor, i: torch.Tensor, x: torch.Tensor) -> None:
    y[i] += x


class Write(nn.Module):
    def __init__(self, write: Callable[..., None]) -> None:
        super().__init__()
        self.write = write

    def forward(self, y: torch.Tensor, i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = y.clone()
        self.write(y, i, x)
        return y


@pytest.mark.parametrize(
    "write", [to_mid, to_last, to_part, before_last, with_ones, in_steps, added]
)
def test_indices_of_any_kind(write: Callable[..., None], tmp_path: Path) -> None:
    model = Write(write)
    y, x = torch.randn(2, 3, 4), torch.randn(4)
    method = loaded(model, (y, torch.tensor(1), x), tmp_path / "model.pte")
    for i in (0, 1, -1, -2):
        index = torch.tensor(i)
        torch.testing.assert_close(method(y, index, x), model(y, index, x), rtol=0, atol=0)
    for i in (4, -5, 2**40, -(2**62)):
        with pytest.raises(PteronError, match="expected u0|out of bounds"):
            method(y, torch.tensor(i), x)


class Fill(nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(x.shape[0], 6, dtype=torch.int64)
        y[:, i] = x[:, 0]
        y[:, i - 1] = 7
        return y


def test_rows_of_any_number(tmp_path: Path) -> None:
    rows = torch.export.Dim("rows", max=50)
    inputs = torch.randn(5, 2), torch.tensor(3)
    method = loaded(Fill(), inputs, tmp_path / "model.pte", dynamic_shapes=({0: rows}, None))
    for count in (5, 2, 50):
        x = 10 * torch.randn(count, 2)
        assert torch.equal(method(x, torch.tensor(0)), Fill()(x, torch.tensor(0)))
