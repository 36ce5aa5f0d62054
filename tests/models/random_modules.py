"""Small modules drawn at random: chains of steps over the op families that models are made of.

    module = RandomModule(seed=81724).eval()     # equal seeds give equal modules
    outputs = module(*module.inputs(call=0))

A module keeps a pool of float tensors. Every step takes tensors from the pool, applies one op of
one family, and puts its result back; a few steps mutate a buffer, branch on data or loop. What no
step takes is returned.

So that results of another float32 implementation can be compared with a module in double precision,
a step is only kept if rounding has little effect: its result, computed in double precision with
every result so far changed by a millionth, may differ by `_SENSITIVITY`. This excludes, say, the
floor of a number that is nearly whole. A wrong element of a weight changes results by much more.
"""

from __future__ import annotations

import copy
import enum
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from tests.models import random_families, random_operators, random_parameters, random_steps
from tests.models.random_steps import Family, Shape, Step
from tests.models.sample import max_relative_error, randn

FAMILIES: dict[Family, int] = {
    random_steps.unary: 5,
    random_steps.binary: 5,
    random_steps.reduction: 2,
    random_steps.normalization: 2,
    random_steps.linear: 2,
    random_steps.view: 5,
    random_steps.casting: 1,
    random_families.product: 2,
    random_families.convolution: 2,
    random_families.window: 2,
    random_families.selection: 4,
    random_families.lookup: 1,
    random_families.recurrence: 1,
    random_families.spectrum: 1,
    random_families.mutation: 2,
    random_families.control: 2,
    random_parameters.weighted: 6,
    random_parameters.batched: 4,
    random_parameters.of_inputs: 2,
    random_parameters.convolved: 2,
    random_parameters.attention: 2,
    random_parameters.experts: 2,
    random_parameters.tied: 2,
    random_parameters.affine: 2,
    random_parameters.half_precision: 1,
    random_operators.scans: 2,
    random_operators.indexed: 2,
    random_operators.volumes: 1,
    random_operators.complexes: 2,
    random_operators.types: 4,
    random_operators.mathematics: 2,
}
"""Families, and how often each is drawn."""

_OF_ANY_BATCH: dict[Family, int] = {
    random_steps.unary: 4,
    random_steps.binary: 4,
    random_steps.normalization: 2,
    random_steps.linear: 2,
    random_parameters.weighted: 6,
    random_parameters.attention: 1,
    random_parameters.experts: 2,
    random_parameters.tied: 2,
}
"""The same for modules whose first dimension is dynamic."""

CALLS = 2  # the second sees the state that the first left
_BATCHES = (5, 33)  # sizes of a dynamic dimension, by call
_LARGEST = 20_000  # elements of one tensor
_MAGNITUDE = 1e3

_SENSITIVITY = 2e-5  # relative to the largest element of a result
_TOLERANCE = 1e-4
# After a product in half precision: bfloat16 rounds by 1/512.
_SENSITIVITY_OF_HALF = 2e-2
_TOLERANCE_OF_HALF = 5e-2


class RandomModule(nn.Module):
    """Four to eight random steps over two inputs.

    Attributes:
      drawn: the family of each step.
      tolerances: for each output, the largest error relative to its largest element.
      dynamic: whether the inputs' first dimension, the same of both, is dynamic.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.seed = seed
        self.dynamic = rng.random() < 0.15
        self._input_shapes = [_random_shape(rng) for _ in range(2)]
        if self.dynamic:
            self._input_shapes = [(rng.choice([3, 8]), shape[-1]) for shape in self._input_shapes]
        self.steps: list[Step] = []
        self.drawn: list[str] = []
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            self._draw(rng)

    def inputs(self, call: int) -> tuple[torch.Tensor, ...]:
        """The inputs of a call."""
        shapes: list[Shape] = self._input_shapes
        if self.dynamic:
            shapes = [(_BATCHES[call % CALLS], *shape) for shape in shapes]
        return tuple(
            randn(1000 * self.seed + 10 * call + j, *shape) for j, shape in enumerate(shapes)
        )

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """For each input, as `torch.export.export` takes it."""
        if not self.dynamic:
            return (None, None)
        batch = torch.export.Dim(f"batch{self.seed}", min=2, max=512)
        return ({0: batch}, {0: batch})

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pool = [x, y]
        for step in self.steps:
            result = step(self, pool)
            pool.append(result if result.dtype == x.dtype else result.to(x.dtype))
        return tuple(pool[i] for i in self._results)

    def _draw(self, rng: random.Random) -> None:
        inputs = [self.inputs(call) for call in range(CALLS)]
        pools = {r: [_Pool(x.to(r.dtype) for x in xs) for xs in inputs] for r in _Rounding}
        families = _OF_ANY_BATCH if self.dynamic else FAMILIES
        errors = [0.0, 0.0]
        taken: set[int] = set()
        rounded: set[int] = set()  # what half precision has a part in
        wanted = rng.randint(4, 8)
        while len(self.steps) < wanted:
            (family,) = rng.choices(list(families), list(families.values()))
            members: tuple[dict[str, Any], ...] = (self._modules, self._parameters, self._buffers)
            before = [set(each) for each in members]
            shapes = [tuple(x.shape) for x in pools[_Rounding.FLOAT][0]]
            step = family(rng, shapes, self, len(self.steps))
            half = family is random_parameters.half_precision
            error = self._try(step, pools, errors, half) if step is not None else None
            if step is None or error is None:
                for each, names in zip(members, before, strict=True):
                    for name in each.keys() - names:
                        del each[name]
                continue
            self.steps.append(step)
            self.drawn.append(family.__name__)
            errors.append(error)
            inputs_of_step = pools[_Rounding.FLOAT][0].taken
            if half or not rounded.isdisjoint(inputs_of_step):
                rounded.add(len(errors) - 1)
            taken |= inputs_of_step
        untaken = [i for i in range(2, len(errors)) if i not in taken]
        self._results = sorted({*untaken, rng.randrange(2, len(errors))})
        self.tolerances = [
            _TOLERANCE_OF_HALF if i in rounded else _TOLERANCE for i in self._results
        ]

    def _try(
        self,
        step: Step,
        pools: Mapping[_Rounding, Sequence[_Pool]],
        errors: Sequence[float],
        half: bool,
    ) -> float | None:
        """Takes the step in all pools if it fits; how much rounding changes its result, or None."""
        first = pools[_Rounding.FLOAT][0]
        first.taken.clear()
        results: dict[_Rounding, list[torch.Tensor]] = {}
        for rounding in _Rounding:
            module = copy.deepcopy(self).to(rounding.dtype)
            try:
                found = [step(module, pool).to(rounding.dtype) for pool in pools[rounding]]
            except RuntimeError:
                if not self.dynamic:
                    raise
                return None  # it needs the batch of the first call
            results[rounding] = found
            if any(not 0 < x.numel() <= _LARGEST or not x.abs().max() <= _MAGNITUDE for x in found):
                return None
        noise = 1 / 512 if half else 1e-6
        results[_Rounding.CHANGED] = [_changed(x, noise) for x in results[_Rounding.CHANGED]]
        exact = results[_Rounding.NONE]
        found = results[_Rounding.FLOAT] + results[_Rounding.CHANGED]
        error = max(
            max_relative_error(a.double(), b) for a, b in zip(found, exact * 2, strict=True)
        )
        half = half or any(errors[i] > _SENSITIVITY for i in first.taken)
        if not error <= (_SENSITIVITY_OF_HALF if half else _SENSITIVITY):
            return None
        for rounding, of_calls in results.items():
            for pool, result in zip(pools[rounding], of_calls, strict=True):
                pool.append(result)
        return error


class _Rounding(enum.Enum):
    """Ways to compute the same."""

    FLOAT = enum.auto()
    NONE = enum.auto()  # double precision
    CHANGED = enum.auto()  # double precision, and all results are changed a little

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self is _Rounding.FLOAT else torch.float64


class _Pool(list[torch.Tensor]):
    """Knows which of its tensors were taken."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__(tensors)
        self.taken: set[int] = set()

    def __getitem__(self, index: Any) -> Any:
        self.taken.add(index)
        return super().__getitem__(index)


def _changed(x: torch.Tensor, noise: float) -> torch.Tensor:
    """`x` with a relative error; integers, which are counts and indices, have none."""
    return x if torch.equal(x, x.round()) else x * (1 + noise * torch.randn_like(x))


def _random_shape(rng: random.Random) -> Shape:
    leading = [rng.choice([2, 3, 5, 8, 16]) for _ in range(rng.choice([1, 2, 2]))]
    if rng.random() < 0.4:
        return (*leading, random_parameters.draw_size(rng))
    return (*leading, rng.choice([2, 3, 5, 8, 16]))
