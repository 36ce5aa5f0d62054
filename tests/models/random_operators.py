"""Families of steps that are here for the functions of the runtime that they call.

Together with the other families they call every function that compiled code can call, see
`tests/random/met.py`. Random numbers are drawn where the result does not depend on them.
See `random_steps` for what a family is.
"""

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.random_families import cond
from tests.models.random_steps import Shape, Step

_Op = Callable[[torch.Tensor], torch.Tensor]


def _step(rng: random.Random, shapes: list[Shape], ops: list[_Op]) -> Step:
    source, op = rng.randrange(len(shapes)), rng.choice(ops)
    return lambda m, pool: op(pool[source])


def scans(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Scans, order and counts."""
    dim = rng.choice([0, -1])
    return _step(
        rng,
        shapes,
        [
            lambda x: torch.cummax(x, dim)[0],
            lambda x: torch.cummin(x, dim)[0],
            lambda x: torch.logcumsumexp(x.clamp(-9, 9), dim),
            lambda x: torch.kthvalue(x, 1, dim, keepdim=True)[0],
            lambda x: torch.mode((x * 2).round(), dim, keepdim=True)[0],
            lambda x: x + x.median() + x.sqrt().nanmedian(),
            lambda x: torch.sort(x, dim, descending=True)[0],
            lambda x: torch.histc(x, 4, -2, 2)[None],
            lambda x: torch.bucketize(x, torch.sort(x.flatten()[:3])[0], right=True).to(x.dtype),
            lambda x: torch.searchsorted(
                torch.sort(x.flatten(0, -2), -1)[0], x.flatten(0, -2) + 0.25
            ).to(x.dtype),
            lambda x: torch.cdist(x.flatten(0, -2), x.flatten(0, -2).flip(0) + 1),
            lambda x: torch.randperm(7, device=x.device).sort()[0].to(x.dtype)[None] + x.mean(),
            lambda x: torch.randint(3, 4, (2, 3), device=x.device).to(x.dtype) + x.mean(),
        ],
    )


def indexed(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Elements by masks and by indices, where sizes depend on data or writes may collide."""

    def put(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[x > 0.5] = 0.25
        return y

    def scatter(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        values = (x * 4).to(dtype)
        index = x.argsort(dim=-1, stable=True)
        return torch.scatter(values, -1, index, values.flip(-1)).to(x.dtype)

    return _step(
        rng,
        shapes,
        [
            lambda x: x[x > 0].sum()[None, None],
            lambda x: x.masked_scatter(x > 0.25, x.flatten().flip(0)),
            put,
            lambda x: x.index_put((x[..., 0] > 0,), x.flatten(0, -2)[0]),
            lambda x: scatter(x, torch.float32).to(x.dtype),
            lambda x: scatter(x, torch.int64),
            lambda x: scatter(x, torch.bool),
            lambda x: torch.scatter((x > 0), -1, x.argsort(dim=-1)[..., :1], True).to(x.dtype),
            lambda x: torch.scatter_reduce(x, -1, x.argsort(dim=-1, stable=True), x, "prod"),
            lambda x: torch.scatter_reduce(x, -1, x.argsort(dim=-1), x, "mean"),
            lambda x: torch.scatter_add(
                (x * 8).to(torch.int64), -1, x.argsort(dim=-1), (x * 8).to(torch.int64)
            ).to(x.dtype),
            lambda x: torch.repeat_interleave(
                x, (x[..., 0].flatten()[: x.shape[0]] > 0).long() + 1, 0
            ).sum(0, keepdim=True),
        ],
    )


def volumes(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step | None:
    """Pooling of two and three dimensions, convolutions of three."""
    fitting = [j for j, shape in enumerate(shapes) if len(shape) == 3 and min(shape) >= 3]
    if not fitting:
        return None
    source = rng.choice(fitting)
    module.register_parameter(f"cube{i}", nn.Parameter(torch.randn(2, 1, 2, 3, 2) / 4))
    ops: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
        lambda m, x: F.avg_pool3d(x, 2, 1),
        lambda m, x: F.avg_pool3d(x, 3, 2, 1),
        lambda m, x: F.max_pool3d(x, 2, 1),
        lambda m, x: F.max_pool3d(x, 3, 1, 1),
        lambda m, x: F.adaptive_avg_pool3d(x, (2, 3, 2)),
        lambda m, x: F.adaptive_max_pool3d(x, 2),
        lambda m, x: F.avg_pool2d(x[0], 6, 1, 3)[None],
        lambda m, x: F.max_pool2d(x[0], 6, 1, 3)[None],
        lambda m, x: F.max_pool2d(x[0], 2, dilation=2, padding=1)[None],
        lambda m, x: F.adaptive_avg_pool2d(F.pad(x[0], (7, 7, 7, 7)), (3, 2))[None],
        lambda m, x: F.adaptive_max_pool2d(F.pad(x[0], (7, 7, 7, 7)), (3, 2))[None],
        lambda m, x: F.conv3d(x, getattr(m, f"cube{i}"), padding=1),
    ]
    op = rng.choice(ops)
    return lambda m, pool: op(m, pool[source][None, None])[0, 0]


def complexes(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Complex numbers, and elements seen as another type."""

    def real(z: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(z).flatten(-2) + 0.125

    def pairs(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_complex(torch.stack([x, x + 1], -1))

    def bits(x: torch.Tensor) -> torch.Tensor:
        return (x.float().view(torch.int32) >> 23).to(x.dtype) / 100

    return _step(
        rng,
        shapes,
        [
            lambda x: real(pairs(x) * pairs(x * 0.5)),
            lambda x: real(pairs(x) + pairs(-x)),
            lambda x: pairs(x).abs(),
            lambda x: real(pairs(x).transpose(-1, -2) + 1),
            lambda x: real(torch.fft.fft2(x, norm="ortho")),
            lambda x: torch.fft.rfft2(x, norm="ortho").abs(),
            bits,
            lambda x: (
                x.to(torch.float32).contiguous().view(torch.int16)[..., 1::2].to(x.dtype) / 4e4
            ),
            lambda x: x.to(torch.float32).contiguous().view(torch.uint8)[..., 3::4].to(x.dtype),
        ],
    )


_TYPES = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)


def types(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Values of each element type in memory, and as numbers of the host."""
    source, dtype = rng.randrange(len(shapes)), rng.choice(_TYPES)

    def stored(x: torch.Tensor) -> torch.Tensor:
        whole = (x.abs() * 2).floor().clamp(0, 8).to(dtype)
        back = x.dtype
        return cond(x.sum() > 0, lambda t: t.to(back) + 1, lambda t: t.to(back), whole)

    def number(x: torch.Tensor) -> torch.Tensor:
        value = (x.flatten()[0] * 0 + 3).to(dtype).item()
        return x * value + 1

    def integers(x: torch.Tensor) -> torch.Tensor:
        whole = (x.flatten(0, -2) * 8).clamp(-100, 100).to(torch.int8)
        return torch._int_mm(F.pad(whole, (0, 0, 0, 17)), whole.t()).to(x.dtype) / 100

    may_be_number = dtype is not torch.bool and "float8" not in str(dtype)
    op = rng.choice([stored, number if may_be_number else stored, integers])
    return lambda m, pool: op(pool[source])


MATHEMATICS: tuple[_Op, ...] = (
    lambda x: torch.acos(x.clamp(-0.9, 0.9)),
    lambda x: torch.acosh(1.5 + x.abs()),
    lambda x: torch.asin(x.clamp(-0.9, 0.9)),
    torch.asinh,
    torch.atan,
    lambda x: torch.atanh(x.clamp(-0.9, 0.9)),
    lambda x: torch.atan2(x, 1 + x.abs()),
    lambda x: torch.copysign(x, x.flip(-1)),
    torch.cos,
    lambda x: torch.cosh(x.clamp(-4, 4)),
    torch.erfc,
    torch.erf,
    lambda x: torch.exp2(x.clamp(-4, 4)),
    lambda x: torch.exp(x.clamp(-4, 4)),
    lambda x: torch.expm1(x.clamp(-4, 4)),
    lambda x: torch.fmod(x, 1.5),
    lambda x: torch.hypot(x, x + 1),
    lambda x: torch.lgamma(1.5 + x.abs()),
    lambda x: torch.log10(0.5 + x.abs()),
    lambda x: torch.log1p(x.abs()),
    lambda x: torch.log2(0.5 + x.abs()),
    lambda x: torch.log(0.5 + x.abs()),
    lambda x: torch.nextafter(x, x + 1),
    lambda x: torch.pow(0.5 + x.abs(), 1.25),
    lambda x: torch.pow(0.5 + x.abs(), x.clamp(-2, 2)),
    torch.sin,
    lambda x: torch.sinh(x.clamp(-4, 4)),
    lambda x: torch.tan(x.clamp(-1, 1)),
    torch.tanh,
)


def mathematics(rng: random.Random, shapes: list[Shape], module: nn.Module, i: int) -> Step:
    """Functions that vector code calls by name, in both precisions, over whole vectors."""
    source, double = rng.randrange(len(shapes)), rng.random() < 0.5
    ops = rng.sample(MATHEMATICS, 4)

    def apply(x: torch.Tensor) -> torch.Tensor:
        y = x.flatten()[:1] + torch.linspace(-1, 1, 32, dtype=x.dtype, device=x.device)
        y = y.double() if double else y
        return torch.stack([op(y) for op in ops]).to(x.dtype)

    return lambda m, pool: apply(pool[source])
