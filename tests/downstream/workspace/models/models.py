"""Models, each compiled by Inductor to other code; a function each, as a build rule takes it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# A function is called in a process of its own, which has read this file.
torch.manual_seed(0)

Example = tuple[nn.Module, tuple[Tensor, ...]]


class Call(nn.Module):
    """A function as a module, with the modules that it calls."""

    def __init__(self, function: Callable[..., Any], *modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, x: Tensor) -> Any:
        return self.function(x, *self.parts)


def _call(function: Callable[..., Any], *modules: nn.Module) -> nn.Module:
    return Call(function, *modules).eval()


def _image(*channels_and_sizes: int) -> tuple[Tensor]:
    return (torch.randn(1, *channels_and_sizes),)


def attention() -> Example:
    def causal(x: Tensor, qkv: nn.Module, out: nn.Module) -> Any:
        q, k, v = qkv(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out(y.transpose(1, 2).flatten(2))

    return _call(causal, nn.Linear(64, 192), nn.Linear(64, 64)), (torch.randn(2, 24, 64),)


def convolution() -> Example:
    layers = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*layers).eval(), _image(3, 32, 32)


def mlp() -> Example:
    layers = nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10), nn.Softmax(-1)
    return nn.Sequential(*layers).eval(), (torch.randn(4, 32),)


def bottleneck() -> Example:
    def residual(x: Tensor, down: nn.Module, depthwise: nn.Module, up: nn.Module) -> Any:
        return x + up(F.hardswish(depthwise(F.hardswish(down(x)))))

    depthwise = nn.Conv2d(32, 32, 3, padding=1, groups=32)
    modules = nn.Conv2d(16, 32, 1), depthwise, nn.Conv2d(32, 16, 1)
    return _call(residual, *modules), _image(16, 16, 16)


def convolution_1d() -> Example:
    layers = nn.Conv1d(4, 16, 5, stride=2), nn.SiLU(), nn.Conv1d(16, 8, 3, dilation=2)
    return nn.Sequential(*layers).eval(), _image(4, 100)


def correlation() -> Example:
    return _call(lambda x: torch.einsum("bic,bjc->bij", x, x).sigmoid()), (torch.randn(2, 12, 8),)


def cumulative() -> Example:
    return _call(lambda x: (x.cumsum(1), x.cumprod(1).tanh())), (torch.randn(3, 40),)


def embedding() -> Example:
    table = nn.Embedding(100, 24)
    module = _call(lambda ids, table: F.normalize(table(ids).mean(1), dim=-1), table)
    return module, (torch.randint(0, 100, (2, 7)),)


def encoder() -> Example:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
    return layer.eval(), (torch.randn(2, 10, 32),)


def gated() -> Example:
    def swiglu(x: Tensor, gate: nn.Module, up: nn.Module, down: nn.Module) -> Any:
        return down(F.silu(gate(x)) * up(x))

    modules = nn.Linear(24, 48), nn.Linear(24, 48), nn.Linear(48, 24)
    return _call(swiglu, *modules), (torch.randn(5, 24),)


def group_norm() -> Example:
    layers = nn.GroupNorm(4, 16), nn.Mish(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(256, 5)
    return nn.Sequential(*layers).eval(), _image(16, 8, 8)


def gru() -> Example:
    return _call(lambda x, gru: gru(x)[0], nn.GRU(8, 16, batch_first=True)), (torch.randn(2, 5, 8),)


def histogram() -> Example:
    def counts(x: Tensor) -> Any:
        bins = (x * 10).long().clamp(0, 9)
        return torch.zeros(10).index_add(0, bins, torch.ones_like(x))

    return _call(counts), (torch.rand(200),)


def interpolation() -> Example:
    def up(x: Tensor, conv: nn.Module) -> Any:
        return F.interpolate(conv(x), scale_factor=2, mode="bilinear")

    return _call(up, nn.Conv2d(3, 6, 3)), _image(3, 20, 20)


def lstm() -> Example:
    return _call(lambda x, lstm: lstm(x)[0], nn.LSTM(8, 16, batch_first=True)), (
        torch.randn(2, 5, 8),
    )


def matching() -> Example:
    def nearest(x: Tensor) -> Any:
        distances = (x[:, None] - x[None]).square().sum(-1)
        return distances.topk(3, largest=False)

    return _call(nearest), (torch.randn(16, 3),)


def normalized() -> Example:
    module = _call(lambda x, norm: norm(x) * torch.rsqrt(1 + x.square()), nn.RMSNorm(48))
    return module, (torch.randn(6, 48),)


def rotary() -> Example:
    def rotate(x: Tensor) -> Any:
        angles = torch.arange(x.shape[1])[:, None] / 100 ** (torch.arange(8) / 8)
        a, b = x.chunk(2, -1)
        return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a), -1)

    return _call(rotate), (torch.randn(2, 9, 16),)


def statistics() -> Example:
    return _call(lambda x: (x.std(1), x.median(1).values, x.logsumexp(1))), (torch.randn(4, 33),)


def transposed() -> Example:
    layers = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.LeakyReLU(), nn.InstanceNorm2d(4)
    return nn.Sequential(*layers).eval(), _image(8, 10, 10)
