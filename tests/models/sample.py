"""What a sample model is: how to build it, export it and feed it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Sample:
    """A model with inputs to export it and inputs to run it.

    Attributes:
      name: unique among the samples; also names files made from it.
      build: makes the module, seeded, in eval mode.
      inputs: makes one set of positional inputs from a seed. Sizes may differ between seeds where
        `dynamic_shapes` allows.
      kwargs: makes keyword inputs from a seed.
      dynamic_shapes: as `torch.export.export` takes it.
      rtol: largest error relative to the largest magnitude of eager's output.
      why: the reason for an `rtol` above 1e-4.
    """

    name: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int], tuple[Any, ...]]
    kwargs: Callable[[int], dict[str, Any]] = lambda seed: {}
    dynamic_shapes: Any = None
    rtol: float = 1e-4
    why: str = ""

    def module(self) -> torch.nn.Module:
        """The module, built after seeding, so that two calls give equal weights."""
        torch.manual_seed(1234)
        return self.build().eval()

    def export(self, module: torch.nn.Module | None = None) -> torch.export.ExportedProgram:
        """The exported program of `module` (a fresh one if None) for the inputs of seed 0."""
        module = self.module() if module is None else module
        with torch.no_grad():
            return torch.export.export(
                module, self.inputs(0), self.kwargs(0), dynamic_shapes=self.dynamic_shapes
            )


def randn(seed: int, *sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A normal tensor of its own generator, so that inputs depend on nothing but the seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*sizes, generator=generator).to(dtype)


def randint(seed: int, high: int, *sizes: int) -> torch.Tensor:
    """An int64 tensor over [0, high)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(high, sizes, generator=generator)


def max_relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference over the largest expected magnitude; inf where not finite alike."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    if expected.numel() == 0:
        return 0.0
    if not expected.dtype.is_floating_point:
        return 0.0 if torch.equal(found, expected) else float("inf")
    found, expected = found.double(), expected.double()
    same = (found == expected) | (found.isnan() & expected.isnan())
    difference = torch.where(same, torch.zeros_like(found), (found - expected).abs())
    if not difference.isfinite().all():
        return float("inf")
    finite = expected[expected.isfinite()]
    scale = max(finite.abs().max().item() if finite.numel() else 0.0, 1e-6)
    return difference.max().item() / scale
