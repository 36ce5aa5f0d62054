"""Models for the oracle: those that need no delegate, and some that do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram


class Numbers(nn.Module):
    """Sizes, a number from a tensor, and what comes of them."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[Any, ...]:
        rows = x.shape[0]
        return x.clone(), rows * 2 + 1, (rows + 7) // 2, 10 - rows, rows % 3, n.item()


class Held(nn.Module):
    """State with an initial value that is not zero."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old = self.held.clone()
        self.held.copy_(x)
        return old


class Constants(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.clone(), self.weight.clone()


class Rows(nn.Module):
    """A view, and a loop over rows: what ExecuTorch writes for them."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch._higher_order_ops.map(torch.clone, x), x.view(-1).clone()


class Attention(nn.Module):
    """Products, softmax, a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(8))
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)
        q, k, v = self.qkv(x).split(8, -1)
        return torch.softmax(q @ k.transpose(-2, -1) / 8**0.5, -1) @ v


class Product(nn.Module):
    """A product with a weight as it is stored."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 5))
        self.bias = nn.Parameter(torch.randn(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight)


class Scalars(nn.Module):
    """Inputs and outputs that are no tensors."""

    def forward(self, x: torch.Tensor, scale: float, flag: bool) -> Any:
        return x.clone(), scale, flag, None, 7


@dataclass(frozen=True)
class Case:
    """A model and what to run it on.

    Attributes:
      build: makes the module.
      calls: flat inputs of each call; the first is the example to export with.
      shapes: dynamic shapes, as torch.export takes them.
    """

    build: Callable[[], nn.Module]
    calls: tuple[tuple[Any, ...], ...]
    shapes: Any = None

    def module(self) -> nn.Module:
        torch.manual_seed(5)
        return self.build().eval()

    def export(self) -> ExportedProgram:
        return torch.export.export(self.module(), self.calls[0], dynamic_shapes=self.shapes)


def _randn(*sizes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randn(*sizes, generator=generator)


_ROWS = Dim("rows", min=1, max=8)

CASES = {
    "numbers": Case(
        Numbers,
        tuple((_randn(rows, 4), torch.tensor(rows - 3)) for rows in (3, 7, 1)),
        ({0: _ROWS}, None),
    ),
    "state": Case(Held, ((_randn(3),), (_randn(3),), (_randn(3),))),
    "constants": Case(Constants, ((_randn(3),),)),
    "scalars": Case(Scalars, ((_randn(3), 2.5, True),)),
}
"""Models that need kernels alone."""

STOCK_CASES = {**CASES, "rows": Case(Rows, ((_randn(3, 4),), (_randn(3, 4),)))}
"""The same, and what kernels do in programs of ExecuTorch alone."""

ATTENTION = Case(Attention, ((_randn(2, 6, 8),),))
PRODUCT = Case(Product, ((_randn(3, 8),), (_randn(5, 8),)), ({0: _ROWS},))
