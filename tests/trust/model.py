"""A model whose weights are in a data file."""

import torch
from torch import nn


class Model(nn.Module):
    """A delegate and a constant of its own."""

    table: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("table", torch.randn(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.linear(x)), self.table


def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(1)
    return Model().eval(), (torch.ones(2, 4),)
