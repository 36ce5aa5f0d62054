"""A model whose run takes memory in many ways."""

import torch
from torch import nn


class Model(nn.Module):
    """Kernels of the runtime, parallel regions, state, outputs whose size depends on values."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.convolution = nn.Conv1d(8, 8, 3, padding=1)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.linear = nn.Linear(8, 512)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.seen.add_(1)
        x = self.convolution(self.embedding(i).transpose(1, 2)).transpose(1, 2)
        x = x + self.lstm(x)[0]
        x = x + self.attention(x, x, x, need_weights=False)[0]
        wide = torch.tanh(self.linear(x)).softmax(-1)
        values, order = wide.flatten(1).topk(5)
        spectrum = torch.fft.rfft(x, dim=1).abs()
        found = torch.nonzero(x.sum(-1) > 0)
        inverse = torch.linalg.inv(x.mT @ x + 8 * torch.eye(8))
        return values, order.sort(stable=True)[0], spectrum, found, inverse, wide.cumsum(1)


def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(1)
    return Model().eval(), (torch.arange(48).reshape(4, 12) % 16,)
