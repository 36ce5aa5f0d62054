"""Small modules drawn at random: chains of steps over the op families that models are made of.

    sample = random_sample(seed=81724)     # equal seeds give equal modules and inputs

A module keeps a pool of float tensors. Every step takes tensors from the pool, applies one op of
one family, and puts its result back; a few steps mutate a buffer, branch on data or loop. All sums
are kept well-conditioned, so that float32 results can be compared.
"""

from __future__ import annotations

import random

import torch
from torch import nn

from tests.models import random_families, random_steps
from tests.models.random_steps import Family, Shape, Step
from tests.models.sample import Sample, randn

FAMILIES: dict[Family, int] = {
    random_steps.unary: 5,
    random_steps.binary: 5,
    random_steps.reduction: 3,
    random_steps.normalization: 3,
    random_steps.linear: 4,
    random_steps.view: 5,
    random_steps.casting: 1,
    random_families.product: 3,
    random_families.convolution: 3,
    random_families.window: 2,
    random_families.selection: 4,
    random_families.lookup: 1,
    random_families.recurrence: 1,
    random_families.spectrum: 1,
    random_families.mutation: 2,
    random_families.control: 2,
}
"""Families, and how often each is drawn."""

_LARGEST = 20_000  # elements of one tensor
_MAGNITUDE = 1e3


class RandomModule(nn.Module):
    """Six to twelve random steps over two inputs; returns the last results.

    Attributes:
      input_shapes: of the inputs.
      drawn: the family of each step.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.input_shapes = [_random_shape(rng) for _ in range(2)]
        self.steps: list[Step] = []
        self.drawn: list[str] = []
        pool = [randn(j, *shape) for j, shape in enumerate(self.input_shapes)]
        wanted = rng.randint(6, 12)
        while len(self.steps) < wanted:
            (family,) = rng.choices(list(FAMILIES), list(FAMILIES.values()))
            step = family(rng, [tuple(x.shape) for x in pool], self, len(self.steps))
            if step is None:
                continue
            with torch.no_grad():
                result = step(self, pool)
            if not 0 < result.numel() <= _LARGEST or not result.abs().max() <= _MAGNITUDE:
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


def _random_shape(rng: random.Random) -> Shape:
    return tuple(rng.choice([2, 3, 5, 8, 16]) for _ in range(rng.choice([2, 3, 3])))
