"""Small models that several tests lower."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Mlp(nn.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Cache(nn.Module):
    """State that is written at a position and read whole."""

    def __init__(self, initial: float = 0.0) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("keys", torch.full((8, 4), initial))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.keys[position] = self.proj(x)
        return self.keys.sum(0) + x


class Islands(nn.Module):
    """Calls of `relu` between everything else, and state that both sides touch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.linear(x))
        old = self.total * 2
        self.total.add_(y.sum(0))
        z = torch.relu(self.linear(y) + old)
        self.total.mul_(0.5)
        return z + self.total


class Function(nn.Module):
    """A function as a module; takes its inputs as one tuple."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, inputs: tuple[Any, ...]) -> Any:
        return self._function(*inputs)
