"""A model of which two backends take turns, with every kind of constant and state between them."""

import torch
from torch import nn

WIDTH = 64


class Interleaved(nn.Module):
    """Products for one backend, the rest for another; `x` is [batch, WIDTH].

    Attributes:
      both: a weight that products and others use.
      row: a bias that a product adds and others multiply with.
      unused: a parameter that nothing uses.
      count: state that only others change.
      trace: state that others change.
      memory: state that a product replaces, and others read before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.both = nn.Parameter(torch.randn(WIDTH, WIDTH) / 8)
        self.row = nn.Parameter(torch.randn(WIDTH))
        self.unused = nn.Parameter(torch.randn(WIDTH))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("trace", torch.zeros(WIDTH))
        self.register_buffer("memory", torch.eye(WIDTH))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        self.count.add_(1)
        h = self.down(nn.functional.gelu(self.up(x)))
        self.trace.mul_(0.5).add_(h.mean(0))
        lifted = torch.tensor([0.25, -0.5] * (WIDTH // 2))
        y = h * self.both.sum(0) + lifted + self.memory.sum(0) * self.row
        self.memory.copy_(torch.mm(self.memory, self.both))
        product = torch.addmm(self.row, y, self.both)
        return product, torch.softmax(y + self.trace, -1), self.count + 1
