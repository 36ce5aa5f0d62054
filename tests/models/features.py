"""Small modules, each with features of torch.export that a lowering can get wrong."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from tests.models.sample import Sample, randint, randn


class DynamicAttention(nn.Module):
    """Batch and sequence dynamic, a causal mask, two inputs that share both dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(32, 32)
        self.kv = nn.Linear(32, 64)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        q = self.q(x).unflatten(-1, (4, 8)).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (8, 8)).transpose(1, 2).chunk(2, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).flatten(2)


class Structures(nn.Module):
    """Nested inputs, keyword inputs, python scalars, several outputs in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(
        self, pair: tuple[torch.Tensor, list[torch.Tensor]], scale: float, *, mask: torch.Tensor
    ) -> dict[str, Any]:
        x, (y, z) = pair
        hidden = torch.where(mask, self.linear(x) * scale, y)
        return {"hidden": hidden, "both": (hidden + z, (hidden > 0)), "count": mask.sum()}


class Dtypes(nn.Module):
    """bool, int32, int64, half, bfloat16 and double in one graph."""

    def forward(
        self, h: torch.Tensor, b: torch.Tensor, i: torch.Tensor, d: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return (
            torch.tanh(h) * 2,
            (b * b).sum(-1),
            (i << 1).to(torch.int32),
            (i > 3) & (d > 0),
            d.exp() + i,
        )


class KvCache(nn.Module):
    """A cache that is written in place and read whole; the position is an input."""

    def __init__(self, length: int = 16, width: int = 8) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)
        self.register_buffer("cache", torch.zeros(length, width))
        self.register_buffer("calls", torch.ones(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.cache[position] = self.key(x)
        self.calls.add_(1)
        return self.cache.cumsum(0)[-1] + self.calls


class Outputs(nn.Module):
    """An input, a parameter, a constant, a view of an input and one tensor twice, as outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * self.weight
        return x, self.weight, torch.arange(4), x.transpose(0, 1), y, y


class SharedParameters(nn.Module):
    """One embedding used as input table and as output projection, and one layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 64)
        self.layer = nn.Linear(64, 64)
        self.head = nn.Linear(64, 100, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(torch.relu(self.layer(self.table(ids)))))


class Selection(nn.Module):
    """Ops outside the compiled loops: topk, sort, cumsum, bag, index, scatter, pooling, resize."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 8, mode="sum")

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, indices = torch.topk(x, 3, dim=-1)
        ordered, _ = torch.sort(x, dim=0, stable=True)
        reduced = torch.zeros_like(x).scatter_reduce(
            1, ids % x.shape[1], x[:, : ids.shape[1]], "amax"
        )
        image = x[None, None]
        pooled = (
            F.adaptive_avg_pool2d(image, (3, 5)),
            F.max_pool2d(image, 2),
            F.avg_pool2d(image, 3),
        )
        resized = F.interpolate(image, scale_factor=2.0, mode="bilinear", align_corners=False)
        return (
            values,
            indices,
            ordered,
            x.cumsum(-1),
            reduced,
            self.bag(ids),
            x[ids[:, 0] % x.shape[0]],
            *pooled,
            resized,
        )


class Convolutions(nn.Module):
    """Convolution in all its forms: 1-d, 3-d, grouped, dilated, strided, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv1d(8, 16, 5, padding=2, dilation=1)
        self.c2 = nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=4)
        self.dilated = nn.Conv2d(16, 8, 3, dilation=2, padding=2, bias=False)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8, padding=1)
        self.pointwise = nn.Conv2d(8, 12, 1)
        self.transposed = nn.ConvTranspose2d(12, 4, 3, stride=2, output_padding=1, padding=1)
        self.c3 = nn.Conv3d(2, 4, 3, padding=1)

    def forward(self, line: torch.Tensor, image: torch.Tensor, volume: torch.Tensor):
        y = self.pointwise(self.depthwise(self.dilated(self.c2(image))))
        return self.c1(line), self.transposed(y), self.c3(volume)


class ControlFlow(nn.Module):
    """A condition on data, with parameters used in both branches."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.linear(x), lambda x: -self.linear(x), (x,))


_batch, _time = Dim("batch", min=1, max=8), Dim("time", min=2, max=64)


def _attention_inputs(seed: int) -> tuple[torch.Tensor, ...]:
    batch, time = [(3, 7), (1, 2), (8, 64), (5, 33)][seed % 4]
    return randn(seed, batch, time, 32), randn(seed + 100, batch, time, 32)


FEATURES: tuple[Sample, ...] = (
    Sample(
        "dynamic_attention",
        DynamicAttention,
        _attention_inputs,
        dynamic_shapes=({0: _batch, 1: _time}, {0: _batch, 1: _time}),
    ),
    Sample(
        "structures",
        Structures,
        lambda seed: ((randn(seed, 2, 6), [randn(seed + 1, 2, 6), randn(seed + 2, 2, 6)]), 1.5),
        kwargs=lambda seed: {"mask": randn(seed + 3, 2, 6) > 0},
    ),
    Sample(
        "dtypes",
        Dtypes,
        lambda seed: (
            randn(seed, 3, 5, dtype=torch.float16),
            randn(seed + 1, 3, 5, dtype=torch.bfloat16),
            randint(seed, 7, 3, 5),
            randn(seed + 2, 3, 5, dtype=torch.float64),
        ),
        rtol=1e-2,
        why="half and bfloat16 round differently where the compiled code keeps float32 longer",
    ),
    Sample("kv_cache", KvCache, lambda seed: (randn(seed, 8), torch.tensor([seed % 16]))),
    Sample("outputs", Outputs, lambda seed: (randn(seed, 3, 4),)),
    Sample("shared_parameters", SharedParameters, lambda seed: (randint(seed, 100, 2, 9),)),
    Sample("selection", Selection, lambda seed: (randn(seed, 12, 15), randint(seed, 50, 4, 6))),
    Sample(
        "convolutions",
        Convolutions,
        lambda seed: (randn(seed, 2, 8, 33), randn(seed, 2, 8, 20, 24), randn(seed, 1, 2, 5, 6, 7)),
    ),
    Sample("control_flow", ControlFlow, lambda seed: (randn(seed, 3, 4),)),
)
