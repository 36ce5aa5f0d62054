"""The shared preprocess: its steps, and what it refuses."""

import logging
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pteron.backends.aoti import aoti_backend, elf, inductor, toolchain
from pteron.backends.aoti.aoti_backend import AotiBackend, BuildTarget
from pteron.backends.aoti.aoti_options import AotiOptions
from pteron.backends.aoti.inductor import GeneratedCode, Target
from pteron.backends.aoti.lowering_errors import InductorFailedError
from pteron.backends.aoti.ops.attention.attention import RUNTIME_ATTENTION
from pteron.backends.aoti.passes.attention import AttentionPass
from pteron.backends.aoti.payload import SharedObjectInfo
from pteron.backends.aoti.toolchain import Machine
from pteron.exir.backend.backend_details import BackendDetails, find_backend
from pteron.exir.undelegated import UnsupportedOperatorsError
from tests.models.cases import Applies


class Device(AotiBackend[AotiOptions]):
    """The mixin with the least that a device has to say. Not a backend, so not registered."""

    @classmethod
    def get_device_name(cls) -> str:
        return "cpu"

    @classmethod
    def get_options(cls, compile_specs) -> AotiOptions:
        return AotiOptions.from_compile_specs(compile_specs)

    @classmethod
    def get_build_target(cls, options) -> BuildTarget:
        return BuildTarget(
            Target("cpu", 256, 1),
            Machine(("-march=x86-64-v3", "-DCPU_CAPABILITY_AVX2")),
            SharedObjectInfo("cpu", isa="x86-64-v3"),
        )


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling anything is an error."""

    def build(*args, **kwargs):
        raise AssertionError("the C++ compiler was called")

    monkeypatch.setattr(toolchain, "build", build)
    monkeypatch.setattr(aoti_backend, "_compile_early", lambda *_: None)


def exported(module: torch.nn.Module, *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(module.eval(), inputs).run_decompositions()


def test_the_mixin_is_no_backend() -> None:
    assert not issubclass(AotiBackend, BackendDetails)
    with pytest.raises(ValueError, match="no backend is named 'AotiBackend'"):
        find_backend("AotiBackend")


def test_a_device_must_say_what_it_is() -> None:
    with pytest.raises(NotImplementedError, match="get_device_name"):
        AotiBackend.get_device_name()
    with pytest.raises(NotImplementedError, match="get_build_target"):
        AotiBackend.get_build_target(AotiOptions())
    with pytest.raises(NotImplementedError, match="get_options"):
        AotiBackend.get_options([])


def test_hooks_have_defaults() -> None:
    assert Device.get_decomposition_table() == {}
    assert Device.get_aoti_compile_options(AotiOptions()) == {}
    assert Device.save_data_externally(AotiOptions()) is False
    with Device.get_extra_aoti_compile_context_manager():
        pass
    assert "aoti_torch_cpu_mm_out" in Device.get_supported_fallback_kernels()


class Refused(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return torch.poisson(x), torch.linalg.eig(x)[1], torch.geqrf(x)[0], x @ x


def test_all_missing_functions_are_reported_before_anything_is_compiled(no_compiler) -> None:
    with pytest.raises(UnsupportedOperatorsError) as caught:
        Device.preprocess(exported(Refused(), torch.rand(3, 3)), [])
    text = str(caught.value)
    geqrf = r"aoti_torch_cpu_geqrf: not in the shim lists of cpu \(%\w+, test_aoti_backend.py:\d+"
    assert re.search(geqrf, text), text
    assert "poisson" in text and "linalg_eig" in text
    assert "aoti_torch_cpu_mm_out" not in text
    assert "leave_out" in text and "partitioner" in text


def test_the_refusals_of_several_partitions_come_together(no_compiler) -> None:
    programs = {
        "first": [exported(Applies(lambda x: torch.geqrf(x)[0]), torch.rand(3, 3))],
        "second": [exported(Applies(lambda x: torch.gcd(x, x + 1)), torch.ones(3).int())],
    }
    backend: Any = type("Several", (Device, _Sequential), {})
    with pytest.raises(UnsupportedOperatorsError) as caught:
        backend.preprocess_multimethod(programs, {"first": [[]], "second": [[]]})
    text = str(caught.value)
    assert "in method 'first', Several: " in text and "aoti_torch_cpu_geqrf" in text
    assert "in method 'second', Several: " in text and "aoti_torch_cpu_gcd" in text


def test_refusals_and_failures_of_inductor_come_together(
    no_compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = inductor.generate_variants

    def fail_for_sin(program: torch.export.ExportedProgram, *others: Any) -> Any:
        if "sin" in str(program.graph):
            raise RuntimeError("an assertion of Inductor")
        return generate(program, *others)

    monkeypatch.setattr(inductor, "generate_variants", fail_for_sin)
    programs = {
        "refused": [exported(Refused(), torch.rand(3, 3))],
        "failed": [exported(Applies(torch.sin), torch.rand(3))],
    }
    backend: Any = type("Several", (Device, _Sequential), {})
    with pytest.raises(InductorFailedError) as caught:
        backend.preprocess_multimethod(programs, {name: [[]] for name in programs})
    text = str(caught.value)
    assert "in method 'refused', " in text and "poisson" in text
    assert "in method 'failed', " in text and "an assertion of Inductor" in text


@pytest.mark.parametrize("target", ["aten.sin.default", "aten.sin"])
def test_where_inductor_fails_the_operator_and_its_line_are_named(
    no_compiler, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError(f"NotImplementedError: PermuteView\n  target: {target}\n")

    class Sin(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sinh() + x.sin()

    monkeypatch.setattr(inductor, "generate_variants", fail)
    with pytest.raises(InductorFailedError) as caught:
        Device.preprocess(exported(Sin(), torch.rand(3)), [])
    said = rf"failed at {target} \(%sin(_\w+)?, test_aoti_backend.py:\d+\): .*PermuteView"
    assert re.search(said, str(caught.value)), caught.value
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_weights_beside_the_program_go_to_the_file_of_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Outside(Device):
        @classmethod
        def save_data_externally(cls, options) -> bool:
            return True

    monkeypatch.setattr(aoti_backend, "_compile_early", lambda *_: None)
    monkeypatch.setattr(toolchain, "build", lambda code, machine, **_: b"shared object")
    monkeypatch.setattr(elf, "undefined_symbols", lambda shared_object: ())
    program = exported(torch.nn.Linear(64, 64), torch.rand(2, 64))
    for backend, tags in ((Device, []), (Outside, ["aoti_cpu_blob"])):
        result = backend.preprocess(program, [])
        assert list(result.data_store_output.external_data) == tags


class _Sequential:
    """Stands for `BackendDetails`, which would register the class."""


def test_mutated_buffers_are_refused(no_compiler) -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    with pytest.raises(ValueError, match=r"mutates its own buffers \['count'\]"):
        Device.preprocess(exported(Counter(), torch.rand(3)), [])


def generated(program: torch.export.ExportedProgram) -> GeneratedCode:
    targets = Device.get_build_targets(AotiOptions())
    return Device._generate(program, targets, AotiOptions())[0]


RESHAPED = Applies(lambda x: x.view(6) + 1)


@pytest.mark.parametrize(
    ("works", "said"),
    [
        (lambda target, ops: True, None),
        (lambda target, ops: torch.ops.aten.view.default not in ops, "aten.view as aten.reshape,"),
        (lambda target, ops: not target.freeze, "aten.reshape and plain options,"),
    ],
)
def test_where_inductor_fails_less_is_asked_of_it(works, said, monkeypatch, caplog) -> None:
    plain_code = GeneratedCode("", "", (), (), (), 1)

    def generate(program, targets, options, each):
        if works(targets[0], {node.target for node in program.graph.nodes}):
            return [plain_code]
        raise AssertionError("inside Inductor")

    monkeypatch.setattr(inductor, "generate_variants", generate)
    program = exported(RESHAPED, torch.rand(2, 3))
    with caplog.at_level(logging.WARNING):
        assert generated(program) is plain_code
    warned = [r.getMessage() for r in caplog.records if r.name == aoti_backend.__name__]
    if said is None:
        assert warned == []
    else:
        (text,) = warned
        assert "failed at first (AssertionError: inside Inductor)" in text and said in text


def test_what_always_fails_raises_the_first_error(monkeypatch) -> None:
    calls = []

    def generate(program, targets, options, each):
        calls.append(targets[0].freeze)
        raise AssertionError(f"attempt {len(calls)}")

    monkeypatch.setattr(inductor, "generate_variants", generate)
    with pytest.raises(InductorFailedError, match="Device: Inductor failed: .*attempt 1"):
        generated(exported(RESHAPED, torch.rand(6)))
    assert calls == [True, True, False]


def test_attention_is_lowered_in_another_way_where_the_first_fails(monkeypatch, caplog) -> None:
    first, fallback = AotiOptions(), AotiOptions()
    generate = inductor.generate_variants

    def fail_for_flex(program, *rest) -> GeneratedCode:
        if any(
            node.target is torch.ops.higher_order.flex_attention for node in program.graph.nodes
        ):
            raise AssertionError("inside Inductor")
        return generate(program, *rest)

    monkeypatch.setattr(inductor, "generate_variants", fail_for_flex)

    class Flexible(Device):
        @classmethod
        def get_attention_pass(cls, options) -> AttentionPass:
            return AttentionPass(lambda call: "flex" if options is first else "library")

        @classmethod
        def get_fallback_options(cls, options) -> AotiOptions | None:
            return fallback

    attends = Applies(lambda x: F.scaled_dot_product_attention(x, x + 1, x + 2))
    program = torch.export.export(attends, (torch.randn(1, 2, 8, 16),))
    targets = Flexible.get_build_targets(first)
    with caplog.at_level(logging.WARNING):
        prepared, (code,) = Flexible._prepare_and_generate(program, targets, first)
    assert "scaled_dot_product_attention" in code.model
    assert RUNTIME_ATTENTION in {node.target for node in prepared.graph.nodes}
    (text,) = [r.getMessage() for r in caplog.records if r.name == aoti_backend.__name__]
    assert "inside Inductor" in text and "another implementation of attention" in text


def test_a_missing_compiler_is_said_before_inductor_is_asked(monkeypatch, caplog) -> None:
    def find_compiler():
        raise toolchain.ToolchainError("no compiler")

    monkeypatch.setattr(toolchain, "find_compiler", find_compiler)
    monkeypatch.setattr(inductor, "generate_variants", lambda *_: pytest.fail("asked"))
    with pytest.raises(toolchain.ToolchainError, match="no compiler"):
        Device.compile_partition(exported(RESHAPED, torch.rand(6)), AotiOptions())
    assert not [r for r in caplog.records if r.name == aoti_backend.__name__]
