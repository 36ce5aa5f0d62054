"""Models that the tests of this folder lower."""

import torch
from torch import nn


class AttentionAndConvolution(nn.Module):
    """Everything Inductor has patterns for: attention, convolution, linear with activation."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.convolution(x)).relu().flatten(2).transpose(1, 2)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(x)))

    @staticmethod
    def sample() -> tuple[nn.Module, torch.Tensor]:
        """The model with its weights and an input, the same ones at each call."""
        torch.manual_seed(7)
        return AttentionAndConvolution().eval(), torch.randn(1, 3, 16, 16)
