"""The networks that the benchmark measures."""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.full_size import bert, logits


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(1024, 4096), nn.Linear(4096, 1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, layers: int = 8, width: int = 1024, heads: int = 16) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        channels = (3, 32, 64, 128)
        self.layers = nn.Sequential(
            *(
                layer
                for a, b in zip(channels, channels[1:], strict=False)
                for layer in (
                    nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False),
                    nn.BatchNorm2d(b),
                    nn.ReLU(),
                )
            )
        )
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean((2, 3)))


@dataclasses.dataclass(frozen=True)
class Case:
    """A network and its input: numbers, or ids below `ids`."""

    build: Callable[[], nn.Module]
    sizes: tuple[int, ...]
    dtype: torch.dtype = torch.bfloat16
    ids: int = 0

    def input(self) -> torch.Tensor:
        """On the GPU."""
        if self.ids:
            return torch.randint(0, self.ids, self.sizes, device="cuda")
        return torch.randn(*self.sizes, device="cuda", dtype=self.dtype)


CASES = {
    "mlp_b8": Case(Mlp, (8, 1024)),
    "transformer_t1": Case(Transformer, (1, 1, 1024)),
    "transformer_t16": Case(Transformer, (1, 16, 1024)),
    "transformer_4x512": Case(Transformer, (4, 512, 1024)),
    "convnet_b4": Case(ConvNet, (4, 3, 64, 64)),
    "convnet_b8": Case(ConvNet, (8, 3, 64, 64)),
    "resnet50_b1": Case(lambda: logits("ResNet"), (1, 3, 224, 224), torch.float16),
    "resnet50_b32": Case(lambda: logits("ResNet"), (32, 3, 224, 224), torch.float16),
    "vit_b16_b1": Case(lambda: logits("ViT"), (1, 3, 224, 224), torch.float16),
    "vit_b16_b32": Case(lambda: logits("ViT"), (32, 3, 224, 224), torch.float16),
    "bert_base_128": Case(bert, (1, 128), torch.float16, ids=30000),
}
