"""Exported programs run as they are, in double precision, and with rounding exaggerated."""

from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from pteron.exir.operators.decompositions import functionalize
from pteron.exir.verification.comparison import errors, rounding_of
from pteron.exir.verification.full_precision import full_precision_matmuls
from pteron.exir.verification.interpreters import PreciseInterpreter
from pteron.exir.verification.reference import Reference

_BACKENDS: Any = torch.backends  # what its modules have by property, type checkers do not see


def reference(model: nn.Module, *args: Any, **kwargs: Any) -> Reference:
    program = torch.export.export(model.eval(), args, kwargs)
    return Reference(program, functionalize(program))


class Counts(nn.Module):
    """State that it reads and writes, and an input that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("table", torch.ones(2))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.count.add_(x)
        y.mul_(2)
        return self.count * self.table + y


def test_state_goes_on_from_call_to_call_and_nothing_is_changed() -> None:
    model, x, y = Counts(), torch.ones(2), torch.full((2,), 3.0)
    tried = reference(model, x, y)
    assert list(tried.state()) == ["count"] and tried.changed_inputs == [1]
    for calls in (tried.run(), tried.run_functional()):
        assert [[v.tolist() for v in call] for call in calls] == [
            [[7, 7], [6, 6]],
            [[8, 8], [6, 6]],
            [[9, 9], [6, 6]],
        ]
    assert model.count.tolist() == [0, 0] and y.tolist() == [3, 3]
    assert tried.program.state_dict["count"].tolist() == [0, 0]
    assert tried.inputs()[1].tolist() == [3, 3]


def test_keyword_arguments_in_any_order() -> None:
    class Subtracts(nn.Module):
        def forward(self, *, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a - b

    tried = reference(Subtracts(), b=torch.ones(1), a=torch.full((1,), 5.0))
    ((result,),) = tried.run()
    assert result.item() == 4


class Branches(nn.Module):
    """Types said outright, and a branch."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ramp = torch.arange(4, dtype=torch.float32) / 3
        y = torch.cond(x.sum() > 0, lambda v: v.float() / 3, lambda v: v.float() / 7, (x,))
        return y + ramp, (x.to(torch.float16) / 3).argmax()


def test_double_precision_reaches_branches_and_types_that_are_said() -> None:
    tried = reference(Branches(), torch.rand(4))
    ((y, index),) = tried.run_functional(PreciseInterpreter)
    assert y.dtype == torch.float64 and index.dtype == torch.int64
    x = tried.inputs()[0].double()
    exact = x / 3 + torch.arange(4, dtype=torch.float64) / 3
    off = errors(y, exact)
    assert off is not None and off.max() < 1e-15


def test_rounding_is_told_from_what_a_model_makes_of_it() -> None:
    class Amplifies(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x.sin(), (x.exp() * 1e4).sin(), (x * 0 + 1).cumsum(0), (x / 3).argsort()

    even = torch.linspace(1, 2, 64)
    tried = reference(Amplifies(), torch.cat([even, even]))
    for ask in rounding_of(tried.run_functional)[:3]:
        calls = ask()
        assert calls is not None
        (outputs,) = calls
        largest = [float(off.max()) for off in outputs if off is not None]
        assert largest[0] < 1e-6 < 1e-4 < largest[1] and largest[2] < 1e-4
    turned = [ask()[0][3] > 0 for ask in rounding_of(tried.run_functional)]  # type: ignore[index]
    # Of two equal numbers either may be first.
    assert torch.stack(turned).any(0).double().mean() > 0.9


def test_random_outputs_are_found() -> None:
    class Random(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("noise", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            before = self.noise.clone()
            self.noise.copy_(torch.rand(4))
            return x + 1, nn.functional.dropout(x), before

    state = torch.random.get_rng_state()
    assert reference(Random(), torch.ones(4)).random_outputs() == {1, 2}
    assert torch.equal(state, torch.random.get_rng_state())


def test_attention_without_dropout_is_not_random(monkeypatch: pytest.MonkeyPatch) -> None:
    class Attends(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = nn.functional.scaled_dot_product_attention(x, x, x)
            return nn.functional.dropout(x, 0.1, training=False)

    attention = reference(Attends(), torch.randn(2, 4, 8))
    monkeypatch.setattr(Reference, "run_functional", None)  # no run is needed to tell
    assert attention.random_outputs() == frozenset()


def test_obstacles_are_named() -> None:
    with FakeTensorMode():
        fake = reference(nn.Linear(2, 2), torch.ones(1, 2))
    assert "without data" in fake.obstacle
    tried = reference(nn.Linear(2, 2), torch.ones(1, 2))
    assert tried.obstacle == ""
    tried.program._example_inputs = None
    assert "no example inputs" in Reference(tried.program, tried.functional).obstacle


def test_references_are_exact_whatever_is_set_for_speed() -> None:
    cuda, mkldnn = _BACKENDS.cuda.matmul, _BACKENDS.mkldnn.matmul
    parts: Any = (cuda, _BACKENDS.cudnn.conv, _BACKENDS.cudnn.rnn, mkldnn)
    seen: set[Any] = set()

    def settings() -> tuple[Any, ...]:
        halves = (cuda.allow_fp16_reduced_precision_reduction, cuda.allow_fp16_accumulation)
        return (*(part.fp32_precision for part in parts), *halves, torch.is_autocast_enabled("cpu"))

    class Looks(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            seen.add(settings())
            return super().run_node(n)

    tried = reference(nn.Linear(2, 2), torch.ones(1, 2))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")  # TF32 on a GPU, bfloat16 on some CPUs
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            wanted = settings()
            ((y,),) = tried.run_functional(Looks)
            assert settings() == wanted and "tf32" in wanted and wanted[-1]
    finally:
        torch.set_float32_matmul_precision(before)
    assert y.dtype == torch.float32
    assert seen == {(*["ieee"] * len(parts), False, False, False)}


def test_settings_come_back_after_an_error() -> None:
    before = _BACKENDS.cudnn.conv.fp32_precision
    with pytest.raises(ValueError, match="stop"), full_precision_matmuls():
        raise ValueError("stop")
    assert _BACKENDS.cudnn.conv.fp32_precision == before
