"""Whole models through the front door, run from the written file and compared with eager."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

from exir.tests.checks import check


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def test_example() -> None:
    program = check(Mlp(), (torch.randn(2, 8),))
    assert program.methods == {"forward"}
    (method,) = program.executorch_program.methods
    assert [delegate.id for delegate in method.delegates] == ["GraphBackend"]


def test_dynamic_batch() -> None:
    check(
        Mlp(),
        (torch.randn(2, 8),),
        (torch.randn(5, 8),),
        (torch.randn(32, 8),),
        dynamic_shapes=({0: Dim("batch", max=32)},),
    )


class Nested(nn.Module):
    def forward(self, pair, flag: bool, *, extra, scale: int = 2, none=None):
        a, b = pair["a"], pair["b"][0]
        c = a + b * scale
        return {"sum": c, "rest": [a if flag else b, None, 7, 1.5, True, c, extra["z"] * 2]}


def test_nested_inputs_and_outputs() -> None:
    pair = {"a": torch.randn(3), "b": [torch.randn(3)]}
    program = check(Nested(), (pair, True), kwargs={"extra": {"z": torch.ones(2)}, "scale": 3})
    types = program.executorch_program.methods[0].container_types
    assert '"builtins.dict"' in types.inputs and '\\"extra\\"' in types.inputs
    assert '\\"sum\\"' in types.outputs


class Cache(nn.Module):
    def __init__(self, initial: float = 0.0) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("keys", torch.full((8, 4), initial))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.keys[position] = self.proj(x)
        return self.keys.sum(0) + x


def test_state_is_kept_between_calls() -> None:
    calls = [(torch.randn(1, 4), torch.tensor([i])) for i in range(3)]
    program = check(Cache(), *calls)
    assert program.executorch_program.mutable_segments is None


def test_state_has_an_initial_value() -> None:
    calls = [(torch.randn(1, 4), torch.tensor([i])) for i in range(3)]
    check(Cache(0.5), *calls)
