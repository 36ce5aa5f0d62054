"""Small modules drawn at random: chains of steps over the op families that models are made of.

    sample = random_sample(seed=81724)     # equal seeds give equal modules and inputs

A module keeps a pool of float tensors. Every step takes tensors from the pool, applies one op of
one family, and puts its result back; a few steps mutate a buffer or branch on data. All sums are
kept well-conditioned, so that float32 results can be compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.sample import Sample, randn

Step = Callable[[nn.Module, list[torch.Tensor]], torch.Tensor]
# Draws one step for the shapes in the pool; None where the family does not fit them.
Family = Callable[[random.Random, list[tuple[int, ...]], "RandomModule", int], "Step | None"]

_UNARY = (
    torch.relu,
    torch.tanh,
    torch.sigmoid,
    torch.sin,
    torch.cos,
    torch.abs,
    torch.neg,
    F.gelu,
    F.silu,
    torch.erf,
    torch.square,
    torch.floor,
    F.softplus,
    torch.sign,
    lambda x: torch.exp(x.clamp(-4, 4)),
    lambda x: torch.log1p(x.abs()),
    lambda x: torch.rsqrt(1 + x * x),
)
_BINARY = (
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    torch.atan2,
    torch.hypot,
    lambda a, b: a / (1 + b.abs()),
    lambda a, b: torch.where(a > b, a, b * 0.5),
    lambda a, b: torch.remainder(a, b.abs() + 0.5),
    lambda a, b: torch.lerp(a, b, 0.25),
)
_REDUCTIONS = (
    lambda x: x.sum(-1, keepdim=True),
    lambda x: x.mean(-1, keepdim=True),
    lambda x: x.amax(-1, keepdim=True),
    lambda x: x.amin(0, keepdim=True),
    lambda x: x.var(-1, keepdim=True, unbiased=False),
    lambda x: x.logsumexp(-1, keepdim=True),
    lambda x: x.norm(dim=-1, keepdim=True),
    lambda x: x.argmax(-1, keepdim=True).float(),
    lambda x: (x > 0).any(-1, keepdim=True).float(),
    lambda x: (x > 0).sum(-1, keepdim=True).float(),
)


def unary(rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int) -> Step:
    source, op = rng.randrange(len(shapes)), rng.choice(_UNARY)
    return lambda m, pool: op(pool[source])


def binary(
    rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int
) -> Step | None:
    a = rng.randrange(len(shapes))
    fitting = [j for j, shape in enumerate(shapes) if _broadcasts(shape, shapes[a])]
    b, op = rng.choice(fitting), rng.choice(_BINARY)
    return lambda m, pool: op(pool[a], pool[b])


def reduction(
    rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int
) -> Step:
    source, op = rng.randrange(len(shapes)), rng.choice(_REDUCTIONS)
    return lambda m, pool: op(pool[source])


def normalization(
    rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int
) -> Step:
    source = rng.randrange(len(shapes))
    width = shapes[source][-1]
    kind = rng.choice(["layer", "softmax", "rms", "log_softmax"])
    if kind == "layer":
        module.add_module(f"norm{i}", nn.LayerNorm(width, elementwise_affine=width > 1))
        return lambda m, pool: getattr(m, f"norm{i}")(pool[source])
    if kind == "rms":
        return lambda m, pool: F.rms_norm(pool[source], (width,), eps=1e-5)
    op = torch.softmax if kind == "softmax" else torch.log_softmax
    return lambda m, pool: op(pool[source], -1)


def linear(rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int) -> Step:
    source, width = rng.randrange(len(shapes)), rng.choice([1, 3, 8, 16, 33])
    module.add_module(f"linear{i}", nn.Linear(shapes[source][-1], width, bias=rng.random() < 0.7))
    return lambda m, pool: getattr(m, f"linear{i}")(pool[source])


def matmul(rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int) -> Step:
    source = rng.randrange(len(shapes))
    if rng.random() < 0.5:  # attention-like: x x^T, scaled
        return lambda m, pool: torch.matmul(pool[source], pool[source].transpose(-1, -2)) / 4
    return lambda m, pool: F.scaled_dot_product_attention(pool[source], pool[source], pool[source])


def convolution(
    rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int
) -> Step | None:
    fitting = [j for j, shape in enumerate(shapes) if len(shape) == 3 and shape[-1] >= 5]
    if not fitting:
        return None
    source = rng.choice(fitting)
    channels = shapes[source][1]
    groups = channels if rng.random() < 0.3 else 1
    kind = nn.ConvTranspose1d if rng.random() < 0.2 else nn.Conv1d
    conv = kind(channels, channels, 3, padding=1, stride=rng.choice([1, 2]), groups=groups)
    module.add_module(f"conv{i}", conv)
    return lambda m, pool: getattr(m, f"conv{i}")(pool[source])


def view(rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int) -> Step:
    source = rng.randrange(len(shapes))
    shape = shapes[source]
    dim = rng.randrange(len(shape))
    ops: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x.transpose(-1, -2),
        lambda x: x.flip(dim),
        lambda x: x.narrow(dim, 0, (shape[dim] + 1) // 2),
        lambda x: x[..., ::2],
        lambda x: x.unsqueeze(dim).expand(*shape[:dim], 2, *shape[dim:]).flatten(dim, dim + 1),
        lambda x: torch.cat([x, x * 0.5], dim),
        lambda x: torch.stack([x, -x], dim).flatten(dim, dim + 1),
        lambda x: F.pad(x, (1, 2)),
        lambda x: torch.roll(x, 1, dim),
        lambda x: x.tril(),
        lambda x: x.chunk(2, dim)[0],
    ]
    op = rng.choice(ops)
    return lambda m, pool: op(pool[source])


def selection(
    rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int
) -> Step:
    source = rng.randrange(len(shapes))
    width = shapes[source][-1]
    k = rng.randint(1, min(3, width))
    index = torch.tensor([rng.randrange(width) for _ in range(4)])
    module.register_buffer(f"index{i}", index)
    ops: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
        lambda m, x: torch.topk(x, k, dim=-1)[0],
        lambda m, x: torch.sort(x, dim=-1)[0],
        lambda m, x: torch.cumsum(x, -1) / 4,
        lambda m, x: x.index_select(-1, getattr(m, f"index{i}")),
        lambda m, x: x[..., getattr(m, f"index{i}")],
        lambda m, x: torch.gather(x, -1, x.argsort(dim=-1, stable=True)),
        lambda m, x: x.index_add(-1, getattr(m, f"index{i}"), x[..., :1].expand(*x.shape[:-1], 4)),
        lambda m, x: torch.scatter(x, -1, torch.zeros_like(x[..., :1], dtype=torch.int64), 0.5),
        lambda m, x: F.one_hot((x > 0).long(), 2).float()[..., 1],
    ]
    op = rng.choice(ops)
    return lambda m, pool: op(m, pool[source])


def casting(
    rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int
) -> Step:
    source = rng.randrange(len(shapes))
    dtype = rng.choice([torch.float64, torch.int32, torch.int64, torch.bool])
    return lambda m, pool: pool[source].to(dtype).float()


def mutation(
    rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int
) -> Step:
    source = rng.randrange(len(shapes))
    shape = shapes[source]
    module.register_buffer(f"state{i}", torch.zeros(shape))

    def accumulate(m: nn.Module, pool: list[torch.Tensor]) -> torch.Tensor:
        state = getattr(m, f"state{i}")
        state.mul_(0.5).add_(pool[source])
        return state + 1

    def write_slice(m: nn.Module, pool: list[torch.Tensor]) -> torch.Tensor:
        state = getattr(m, f"state{i}")
        state[..., :1] = pool[source][..., :1]
        return state * 2

    def on_copy(m: nn.Module, pool: list[torch.Tensor]) -> torch.Tensor:
        local = pool[source].clone()
        local[..., 0].fill_(0.25)
        local.view(-1)[:1].mul_(2)
        return local

    return rng.choice([accumulate, write_slice, on_copy])


def control(
    rng: random.Random, shapes: list[tuple[int, ...]], module: RandomModule, i: int
) -> Step:
    source = rng.randrange(len(shapes))
    op, other = rng.choice(_UNARY[:8]), rng.choice(_UNARY[:8])
    return lambda m, pool: torch.cond(
        pool[source].sum() > 0, lambda x: op(x) + 1, lambda x: other(x) * 2, (pool[source],)
    )


FAMILIES: tuple[Family, ...] = (
    unary,
    binary,
    reduction,
    normalization,
    linear,
    matmul,
    convolution,
    view,
    selection,
    casting,
    mutation,
    control,
)
_WEIGHTS = (5, 5, 3, 3, 4, 3, 3, 5, 4, 1, 2, 1)


class RandomModule(nn.Module):
    """Six to twelve random steps over two inputs; returns the last results."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.input_shapes = [_random_shape(rng) for _ in range(2)]
        self.steps: list[Step] = []
        self.drawn: list[str] = []
        pool = [randn(j, *shape) for j, shape in enumerate(self.input_shapes)]
        wanted = rng.randint(6, 12)
        while len(self.steps) < wanted:
            family = rng.choices(FAMILIES, _WEIGHTS)[0]
            step = family(rng, [tuple(x.shape) for x in pool], self, len(self.steps))
            if step is None:
                continue
            with torch.no_grad():
                result = step(self, pool)
            if result.numel() == 0 or result.numel() > 20_000 or result.abs().max() > 1e3:
                continue
            pool.append(result)
            self.steps.append(step)
            self.drawn.append(family.__name__)
        for name, buffer in self.named_buffers():
            if name.startswith("state"):
                buffer.zero_()  # drawing has run the mutations once
        self.results = sorted(rng.sample(range(2, len(pool)), 2) + [len(pool) - 1])

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pool = [x, y]
        for step in self.steps:
            pool.append(step(self, pool))
        return tuple(pool[i] for i in self.results)


def random_sample(seed: int) -> Sample:
    """The sample of `seed`, with inputs of matching shapes."""
    shapes = RandomModule(seed).input_shapes
    return Sample(
        f"random_{seed}",
        lambda: RandomModule(seed),
        lambda s: tuple(randn(1000 * s + j, *shape) for j, shape in enumerate(shapes)),
        rtol=1e-3,
        why="chains of up to twelve ops amplify the rounding of the first",
    )


def _random_shape(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice([2, 3, 5, 8, 16]) for _ in range(rng.choice([2, 3, 3])))


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or m == 1 or n == 1 for m, n in zip(a[::-1], b[::-1], strict=False))
