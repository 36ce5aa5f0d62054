"""Decompositions of random values, which Inductor would call as C functions that there are not."""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

_aten = torch.ops.aten


def random_values() -> dict[OpOverload, Callable[..., Any]]:
    """Those of a torch.Generator are not among them: a program has one source of random values."""
    table: dict[OpOverload, Callable[..., torch.Tensor]] = {
        _aten.normal_functional.default: _normal_like,
        _aten.normal.Tensor_float: _normal,
        _aten.normal.float_Tensor: _normal,
        _aten.normal.Tensor_Tensor: _normal,
        _aten.uniform.default: _uniform,
        _aten.bernoulli.p: _bernoulli,
        _aten.bernoulli.Tensor: _bernoulli,
    }
    return {op: _without_generator(function) for op, function in table.items()}


def _without_generator(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def run(*args: Any, generator: torch.Generator | None = None) -> Any:
        return function(*args) if generator is None else NotImplemented

    return run


def _normal_like(like: torch.Tensor, mean: float = 0, std: float = 1) -> torch.Tensor:
    return torch.randn_like(like) * std + mean


def _normal(mean: Any = 0, std: Any = 1) -> torch.Tensor:
    return torch.randn_like(mean + std) * std + mean


def _uniform(like: torch.Tensor, low: float = 0, high: float = 1) -> torch.Tensor:
    return torch.rand_like(like) * (high - low) + low


def _bernoulli(like: torch.Tensor, p: Any = 0.5) -> torch.Tensor:
    return (torch.rand_like(like, dtype=torch.float32) < p).to(like.dtype)
