"""Files of ours for the oracle: models that need no delegate, and one with delegates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram


class Elementwise(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        s = torch.sigmoid(x) * y - x / (y.abs() + 1)
        return s, torch.where(x > y, x, -y), torch.clamp(s, -0.5, 0.5), (x * 3).to(torch.int32)


class Shapes(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        turned = x.permute(1, 0).unsqueeze(0).expand(2, -1, -1)
        joined = torch.cat([x, x[:1]], 0)
        return turned.clone(), joined, x.sum(1, keepdim=True), x.reshape(-1)[2:8:2].clone()


class Attention(nn.Module):
    """Products, softmax, a norm; weights are constants of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(8))
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)
        q, k, v = self.qkv(x).split(8, -1)
        return torch.softmax(q @ k.transpose(-2, -1) / 8**0.5, -1) @ v


class Product(nn.Module):
    """Products with weights as they are stored."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 5))
        self.bias = nn.Parameter(torch.randn(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.addmm(self.bias, x, self.weight), -1)


class Counter(nn.Module):
    """State with an initial value that is not zero."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


class Scalars(nn.Module):
    """Inputs and outputs that are no tensors."""

    def forward(self, x: torch.Tensor, scale: float, flag: bool) -> Any:
        return x * scale if flag else x, scale, flag, None, 7


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


CASES = {
    "elementwise": Case(Elementwise, ((_randn(3, 4), _randn(4, 3).T.contiguous()),)),
    "shapes": Case(Shapes, ((_randn(4, 5),),)),
    "attention": Case(Attention, ((_randn(2, 6, 8),),)),
    "product": Case(Product, ((_randn(3, 8),),)),
    "dynamic": Case(
        Elementwise,
        ((_randn(3, 4), _randn(3, 4)), (_randn(7, 4), _randn(7, 4)), (_randn(1, 4), _randn(1, 4))),
        ({0: Dim("n", min=1, max=8)}, {0: Dim("n", min=1, max=8)}),
    ),
    "state": Case(Counter, ((_randn(3),), (_randn(3),), (_randn(3),))),
    "scalars": Case(Scalars, ((_randn(3), 2.5, True),)),
}
"""Models of operators that both runtimes have kernels for."""
