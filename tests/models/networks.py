"""The networks of the benchmark: the shapes that people deploy, small enough for two cores."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.sample import Sample, randint, randn


class MlpBlock(nn.Module):
    """Layer norm, 768 to 3072, GELU, back to 768."""

    def __init__(self, width: int = 768, hidden: int = 3072) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(self.norm(x))))


class AttentionBlock(nn.Module):
    """Pre-norm self-attention with a residual MLP; `x` is [batch, time, width]."""

    def __init__(self, width: int = 512, heads: int = 8, hidden: int = 2048) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = MlpBlock(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp(x)


class ConvNet(nn.Module):
    """Three strided convolutions with batch norm, a pooled head; `x` is [batch, 3, 96, 96]."""

    def __init__(self) -> None:
        super().__init__()
        widths = [3, 16, 32, 64]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU())
                for a, b in zip(widths, widths[1:], strict=False)
            )
        )
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.stages(x).mean((2, 3)))


class Encoder(nn.Module):
    """A small BERT: token and position embeddings, 6 blocks of width 384; ids are [batch, time]."""

    def __init__(self, layers: int = 6, width: int = 384, vocabulary: int = 8000) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(512, width)
        self.blocks = nn.ModuleList(AttentionBlock(width, 6, 4 * width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Lstm(nn.Module):
    """A two-layer LSTM of width 128 with a head on the last step; `x` is [batch, time, 64]."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


class DepthwiseNet(nn.Module):
    """MobileNet-like inverted residuals; `x` is [batch, 3, 96, 96]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16))
        layers: list[nn.Module] = []
        for a, b, stride in [(16, 16, 1), (16, 24, 2), (24, 24, 1), (24, 40, 2), (40, 40, 1)]:
            layers.append(_InvertedResidual(a, b, stride))
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(40, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(F.relu6(self.stem(x))).mean((2, 3)))


class _InvertedResidual(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        hidden = 4 * a
        self.residual = stride == 1 and a == b
        self.layers = nn.Sequential(
            nn.Conv2d(a, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, b, 1, bias=False),
            nn.BatchNorm2d(b),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.residual else y


NETWORKS: tuple[Sample, ...] = (
    Sample("linear", lambda: nn.Linear(8, 8), lambda seed: (randn(seed, 1, 8),)),
    Sample("mlp_block", MlpBlock, lambda seed: (randn(seed, 128, 768),)),
    Sample("attention", AttentionBlock, lambda seed: (randn(seed, 1, 128, 512),)),
    Sample("conv_net", ConvNet, lambda seed: (randn(seed, 1, 3, 96, 96),)),
    Sample("encoder", Encoder, lambda seed: (randint(seed, 8000, 1, 128),)),
    Sample("lstm", Lstm, lambda seed: (randn(seed, 1, 32, 64),)),
    Sample("depthwise_net", DepthwiseNet, lambda seed: (randn(seed, 1, 3, 96, 96),)),
)
