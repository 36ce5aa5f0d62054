"""What a random module's step is, and the families of steps that nearly every model has.

A family draws one step for the shapes in the pool, or None where it does not fit them::

    step = unary(rng, [(2, 3), (4, 4)], module, 0)
    result = step(module, pool)          # float32, at least one dimension

Weights and buffers that a step needs go into the module, under names that end in its number.
"""

import random
from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import nn

Shape: TypeAlias = tuple[int, ...]
Step: TypeAlias = Callable[[nn.Module, list[torch.Tensor]], torch.Tensor]
Family: TypeAlias = Callable[[random.Random, list[Shape], nn.Module, int], "Step | None"]

UNARY = (
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


def unary(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    source, op = rng.randrange(len(shapes)), rng.choice(UNARY)
    return lambda m, pool: op(pool[source])


def binary(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step | None:
    a = rng.randrange(len(shapes))
    fitting = [j for j, shape in enumerate(shapes) if _broadcasts(shape, shapes[a])]
    b, op = rng.choice(fitting), rng.choice(_BINARY)
    return lambda m, pool: op(pool[a], pool[b])


def reduction(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    source, op = rng.randrange(len(shapes)), rng.choice(_REDUCTIONS)
    return lambda m, pool: op(pool[source])


def normalization(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
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


def linear(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    source, width = rng.randrange(len(shapes)), rng.choice([1, 3, 8, 16, 33])
    module.add_module(f"linear{i}", nn.Linear(shapes[source][-1], width, bias=rng.random() < 0.7))
    return lambda m, pool: getattr(m, f"linear{i}")(pool[source])


def view(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
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


def casting(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    source = rng.randrange(len(shapes))
    dtype = rng.choice([torch.float64, torch.int32, torch.int64, torch.bool])
    return lambda m, pool: pool[source].to(dtype).float()


def _broadcasts(a: Shape, b: Shape) -> bool:
    return all(m == n or m == 1 or n == 1 for m, n in zip(a[::-1], b[::-1], strict=False))
