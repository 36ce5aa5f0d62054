"""A program of the sampling graph draws from transformers' distributions."""

import math
from typing import Any

import pytest
import torch
from torch import nn
from transformers.generation import logits_process

import pteron
from pteron.exir.config import ExecutorchBackendConfig
from pteron.llm.sampling import SETTINGS, choose

_DRAWS = 10_000
_VOCABULARY = 24

_DEFAULTS = {
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "seed": 7,
}
_PROCESSORS: dict[str, Any] = {
    "repetition_penalty": logits_process.RepetitionPenaltyLogitsProcessor,
    "temperature": logits_process.TemperatureLogitsWarper,
    "top_k": logits_process.TopKLogitsWarper,
    "top_p": logits_process.TopPLogitsWarper,
    "min_p": logits_process.MinPLogitsWarper,
}
_SEEN = [1, 5, 6]


class Choose(nn.Module):
    def forward(self, logits: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return choose(logits.expand(_DRAWS, -1), *others)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("sampling") / "choose.pte"
    pteron.export(
        Choose(),
        (_logits(), *_inputs({})),
        path,
        options={"cpu.isa": "native"},
        config=ExecutorchBackendConfig(verify="example"),
    )
    return pteron.Runtime.get().load_program(path).load_method("forward")


def _logits() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, _VOCABULARY, generator=generator)
    logits[0, 3] = -torch.inf
    return logits


def _inputs(settings: dict[str, Any]) -> list[torch.Tensor]:
    seen = torch.zeros(_DRAWS, _VOCABULARY, dtype=torch.bool)
    seen[:, _SEEN] = True
    values = {**_DEFAULTS, **settings}
    return [
        seen,
        torch.arange(_DRAWS),
        *(torch.full((_DRAWS,), values[name]) for name in SETTINGS),
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 1.7, "seed": 1 << 40},
        {"top_k": 1},
        {"top_k": 5},
        {"top_p": 0.7},
        {"top_p": 1e-6},
        {"min_p": 0.2},
        {"repetition_penalty": 1.8},
        {"repetition_penalty": 1e-6},
        {"repetition_penalty": 1e6},
        {"temperature": 1e30},
        {"temperature": 0.8, "top_k": 12, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.2},
    ],
)
def test_a_distribution(program: Any, settings: dict[str, Any]) -> None:
    scores = _logits()
    for name, processor in _PROCESSORS.items():
        if name in settings:
            scores = processor(settings[name])(torch.tensor([_SEEN]), scores)
    expected = scores.softmax(-1)[0].double() * _DRAWS
    (tokens,) = program.execute([_logits(), *_inputs(settings)])
    counts = torch.bincount(tokens, minlength=_VOCABULARY).double()
    assert counts[expected == 0].sum() == 0
    possible = expected > 0
    freedom = int(possible.sum()) - 1
    chi_square = float(((counts - expected)[possible] ** 2 / expected[possible]).sum())
    # Wilson and Hilferty: a normal variable; 4 deviations are 3e-5.
    if freedom:
        spread = 2 / (9 * freedom)
        assert ((chi_square / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread) < 4


def test_a_temperature_of_zero_takes_the_largest(program: Any) -> None:
    settings = {"temperature": 0.0, "top_k": 3, "top_p": 0.5, "repetition_penalty": 1.3}
    (tokens,) = program.execute([_logits(), *_inputs(settings)])
    penalized = _PROCESSORS["repetition_penalty"](1.3)(torch.tensor([_SEEN]), _logits())
    assert tokens.unique().tolist() == [penalized.argmax()]


@pytest.mark.parametrize("temperature", [1e-30, 1e-38, 1e-42, 1e-50])
def test_the_lowest_temperatures_take_the_largest(program: Any, temperature: float) -> None:
    (tokens,) = program.execute([_logits(), *_inputs({"temperature": temperature})])
    assert tokens.unique().tolist() == [_logits().argmax()]


def test_a_seed_decides(program: Any) -> None:
    def draws(seed: int) -> torch.Tensor:
        return program.execute([_logits(), *_inputs({"seed": seed})])[0]

    assert torch.equal(draws(1), draws(1))
    assert not torch.equal(draws(1), draws(2))
    assert not torch.equal(draws(1), draws(1 + (1 << 32)))


@pytest.mark.parametrize("size", [5, 512, 1300])
def test_the_first_of_the_likeliest_is_taken(size: int) -> None:
    logits = torch.zeros(3, size)
    logits[0, [size // 2, size - 1]] = 3.0
    logits[1] = -torch.inf
    settings = [torch.tensor([value]).expand(3) for value in SETTINGS.values()]
    seen = torch.zeros(3, size, dtype=torch.bool)
    found = choose(logits, seen, torch.zeros(3, dtype=torch.int64), *settings, greedy=True)
    assert found.tolist() == logits.argmax(-1).tolist()
