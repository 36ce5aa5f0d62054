"""Lowering for the CPU compares what it made with what was exported, and names what is wrong."""

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pteron.backends.aoti import inductor
from pteron.backends.aoti.inductor import patches
from pteron.backends.cpu import CpuBackend, CpuOptions, CpuPartitioner
from pteron.exir import ExecutorchBackendConfig, VerificationError, to_edge_transform_and_lower
from pteron.exir.program import EdgeProgramManager
from pteron.exir.verification import verify


def lowered(
    *models: nn.Module, options: CpuOptions | None = None, example: Any = None
) -> EdgeProgramManager:
    """Methods `forward`, `second`, ... for a batch of 24 rows of 32."""
    torch.manual_seed(0)
    x = torch.randn(24, 32) if example is None else example
    names = ("forward", "second")
    programs = {
        name: torch.export.export(model.eval(), (x,))
        for name, model in zip(names, models, strict=False)
    }
    return to_edge_transform_and_lower(programs, partitioner=[CpuPartitioner(options)])


class Sliced(nn.Module):
    """A product with a part of a parameter, amid others."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 32)
        self.p = nn.Parameter(torch.randn(96, 32))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(x).relu()
        y = F.linear(x, self.p[32:])  # packed wrongly
        return x.sin(), y.tanh()


def test_weights_that_are_packed_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(patches.REPAIRS, "fix_packed_weight_storage_offset")
    manager = lowered(Sliced())
    with pytest.raises(VerificationError) as raised:
        manager.to_executorch()
    text = str(raised.value)
    assert "method 'forward'" in text and "output 1: differs by" in text
    assert "output 0" not in text
    assert "aten.mm.default" in text and "lowered_module_0 of CpuBackend" in text
    (line,) = [i for i, s in enumerate(open(__file__), 1) if s.endswith("# packed wrongly\n")]
    assert f"test_verification.py:{line}" in text
    assert "verify=False" in text
    written = manager.to_executorch(ExecutorchBackendConfig(verify=False))
    assert "turned off" in str(written.explain())


def test_one_channel_of_the_delegate_as_a_whole() -> None:
    """The program has other weights than the one lowered again to find the operator."""
    model = Sliced()
    manager = lowered(model)
    with torch.no_grad():
        model.p[32 + 5].mul_(1.01)
    with pytest.raises(VerificationError) as raised:
        manager.to_executorch(ExecutorchBackendConfig(verify="example"))
    text = str(raised.value)
    assert "output 1: differs by" in text and "output 0" not in text
    assert "it is the delegate as a whole; what differs comes from aten.tanh.default" in text
    (line,) = [i for i, s in enumerate(open(__file__), 1) if "return x.sin(), y.tanh()" in s][:1]
    assert f"test_verification.py:{line}" in text and "lowered_module_0 of CpuBackend" in text


class Dynamic(nn.Module):
    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[Any, ...]:
        total = x.sum()
        return x.softmax(0), x.mean(1)[ids], total.item() * 2.5, (x > 0).sum().item(), x.argmax(-1)


def test_other_sizes_layouts_and_numbers_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_LEAST", 120)  # seconds, however slow the machine is
    monkeypatch.setattr(verify, "_MOST", 120)
    b = torch.export.Dim("b", min=1, max=300)
    program = torch.export.export(
        Dynamic(), (torch.randn(24, 33), torch.arange(24)), dynamic_shapes=({0: b}, {0: b})
    )
    manager = to_edge_transform_and_lower(program, partitioner=[CpuPartitioner()])
    text = str(manager.to_executorch().explain())
    for tried in (
        "x is [1, 33] and ids is [1]",
        "x is [300, 33]",
        "strided",
        "channels last",
        "NaN",
    ):
        assert tried in text
    brief = manager.to_executorch(ExecutorchBackendConfig(verify="example"))
    assert "strided" not in str(brief.explain()) and "5 outputs in 1 call" in str(brief.explain())
    with pytest.raises(ValueError, match="verify is 'all'"):
        ExecutorchBackendConfig(verify="all")  # type: ignore[arg-type]


class SmallErrors(nn.Module):
    """The quotient of numbers near zero, one of which compiled code computes by a formula."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.atan2(x, x.erf() * self.factor)


def test_errors_of_formulas_are_known() -> None:
    example = torch.linspace(-1e-3, 1, 24 * 32).reshape(24, 32)
    assert "verified" in str(lowered(SmallErrors(1), example=example).to_executorch().explain())


class Sine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(24, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        # Zero at first: what is wrong with it shows in a later call only.
        y = y + self.total.sin()
        self.total += 1
        return y.tanh()


def _wrong_sine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first variant of compiled code, which the best machines do not run, computes `|x|` for
    `sin(x)`, which is right for 0 and nothing else."""
    generate = inductor.generate_variants

    def wrong(*args: Any, **kwargs: Any) -> Any:
        first, *others = generate(*args, **kwargs)
        kernels = first.kernels.replace(".sin()", ".abs()").replace("std::sin(", "std::abs(")
        return [dataclasses.replace(first, kernels=kernels), *others]

    monkeypatch.setattr(inductor, "generate_variants", wrong)
    monkeypatch.setattr(CpuBackend, "keeps_results", lambda options: False)


def test_a_wrong_kernel_that_shows_in_the_second_call(monkeypatch: pytest.MonkeyPatch) -> None:
    _wrong_sine(monkeypatch)
    manager = lowered(Sine(), Sliced())
    with pytest.raises(VerificationError) as raised:
        manager.to_executorch()
    text = str(raised.value)
    assert text.count("the first operator that differs is aten.sin.default") == 2
    assert "method 'forward'" in text and "method 'second'" in text


class Many(nn.Module):
    """Outputs of all kinds: a number, indices, random ones, and one that rounding governs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 16)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> tuple[Any, ...]:
        self.count += 1
        y = self.linear(x)
        ill = (y.exp() * 1e9).sin()
        worse = (y.double().exp() * 1e3).sin().float()
        return y, y.argmax(-1), torch.rand(3) + y[0, :3], ill, worse, self.count, x.shape[0]


def test_what_was_compared_is_said(caplog: pytest.LogCaptureFixture) -> None:
    program = lowered(Many()).to_executorch()
    assert "outputs [3] not compared" in caplog.text
    text = str(program.explain())
    assert "verified" in text and "5 outputs in 3 calls" in text
    assert "outputs [2] not compared: they are random" in text
    assert "outputs [3] not compared: rounding alone" in text


def test_weights_outside_and_shared_and_16_bits() -> None:
    options = CpuOptions(weights="shared", save_data_externally=True)
    program = lowered(Sliced(), options=options).to_executorch()
    assert "2 outputs in 1 call" in str(program.explain())
    half = lowered(Sliced().to(torch.bfloat16), example=torch.randn(24, 32, dtype=torch.bfloat16))
    assert "2 outputs in 1 call" in str(half.to_executorch().explain())


def test_a_pass_that_changes_results() -> None:
    def forget_sine(module: torch.fx.GraphModule) -> None:
        for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.cos.default
        module.recompile()

    program = torch.export.export(Sliced().eval(), (torch.randn(24, 32),))
    manager = to_edge_transform_and_lower(
        program, transform_passes=[forget_sine], partitioner=[CpuPartitioner()]
    )
    with pytest.raises(VerificationError, match="no part of it differs on its own") as raised:
        manager.to_executorch()
    assert "what differs comes from aten.cos.default" in str(raised.value)
