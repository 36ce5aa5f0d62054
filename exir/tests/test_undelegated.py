"""What no partitioner takes is compiled when the program is written, or reported together."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch.export import ExportedProgram

from pteron.exir import (
    ExecutorchBackendConfig,
    UnsupportedOperatorsError,
    to_edge,
    to_edge_transform_and_lower,
)
from pteron.exir.backend import leftovers
from pteron.exir.backend.partitioner import LEFT_OUT_REASON, PartitionResult
from pteron.exir.graph import kernels
from pteron.exir.graph.lowered_backend_module import LoweredBackendModule, lowered_modules
from pteron.exir.program import EdgeProgramManager, ExecutorchProgramManager
from pteron.exir.tests.backends import OpsPartitioner
from pteron.exir.tests.checks import load
from pteron.exir.tests.modules import Function, Islands

aten = torch.ops.aten


def backends(program: ExecutorchProgramManager, method: str = "forward") -> list[str]:
    graph = program.exported_program(method).graph_module
    return [module.backend_id for _, module in lowered_modules(graph)]


def sin_of_relu(*partitioners: OpsPartitioner) -> EdgeProgramManager:
    function = Function(lambda x: torch.relu(x).sin())
    exported = torch.export.export(function, ((torch.randn(8),),))
    return to_edge_transform_and_lower(exported, partitioner=list(partitioners))


def test_what_is_left_is_compiled_when_the_program_is_written() -> None:
    edge = sin_of_relu(OpsPartitioner([aten.relu.default]))
    (method,) = edge.explain().methods
    assert len(method.partitions) == 1 and method.pending == {"aten.sin.default": 1}
    assert "pending     1 aten.sin: compiled by to_executorch" in str(edge.explain())
    program = edge.to_executorch()
    assert backends(program) == ["GraphBackend", "OtherBackend"]
    (method,) = program.explain().methods
    assert method.pending == {} and method.kernels == {}
    x = torch.randn(8)
    torch.testing.assert_close(load(program)["forward"](x), [x.relu().sin()])


def test_passes_come_before() -> None:
    def cosine(module: torch.fx.GraphModule) -> None:
        for node in module.graph.find_nodes(op="call_function", target=aten.sin.default):
            node.target = aten.cos.default

    program = sin_of_relu().to_executorch(ExecutorchBackendConfig(passes=[cosine], verify=False))
    x = torch.randn(8)
    torch.testing.assert_close(load(program)["forward"](x), [x.relu().cos()])


def test_the_delegates_of_its_own_method_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def make(lowered: Sequence[LoweredBackendModule]) -> OpsPartitioner:
        seen.append([module.backend_id for module in lowered])
        return OpsPartitioner(backend="OtherBackend")

    monkeypatch.setattr(leftovers, "_make", make)
    exported = torch.export.export(Islands(), (torch.randn(2, 4),))
    program = to_edge_transform_and_lower(
        {"a": exported, "b": exported, "c": exported},
        partitioner={
            "a": [OpsPartitioner([aten.addmm.default], backend="OtherBackend")],
            "b": [OpsPartitioner([aten.relu.default])],
            "c": [OpsPartitioner()],
        },
    ).to_executorch()
    assert seen == [
        ["OtherBackend", "OtherBackend", "GraphBackend", "GraphBackend", "GraphBackend"],
        ["GraphBackend", "GraphBackend", "OtherBackend", "OtherBackend", "GraphBackend"],
    ]
    assert backends(program, "c") == ["GraphBackend"]


def test_what_kernels_do_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_make", None)
    monkeypatch.setattr(leftovers, "_BACKENDS", "no_such_package")

    def copies(x: torch.Tensor, number: torch.Tensor, holds: torch.Tensor) -> object:
        torch._check(number.item() < 7)
        torch._assert_async(holds, "it does not")
        return x.clone(), x.shape[0] * 2

    rows = torch.export.Dim("rows", max=8)
    exported = torch.export.export(
        Function(copies),
        ((torch.randn(3), torch.tensor(6), torch.tensor(True)),),
        dynamic_shapes=(({0: rows}, None, None),),
    )
    edge = to_edge(exported)
    assert edge.explain().methods[0].pending == {}
    program = edge.to_executorch()
    assert program.explain().methods[0].kernels["aten::_assert_async.msg"] == 1
    x = torch.randn(5)
    forward = load(program)["forward"]
    found, count = forward(x, torch.tensor(-1), torch.tensor(True))
    assert torch.equal(found, x) and count == 10 and backends(program) == []
    with pytest.raises(AssertionError, match=r"found 7, expected at most 6 \(.*modules\.py:\d+\)"):
        forward(x, torch.tensor(7), torch.tensor(True))
    with pytest.raises(AssertionError, match=r"it does not \(aten\._assert_async\.msg, .*\.py:\d+"):
        forward(x, torch.tensor(6), torch.tensor(False))


def test_without_a_backend_for_it_the_target_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_make", None)
    monkeypatch.setattr(leftovers, "_BACKENDS", "no_such_package")
    with pytest.raises(UnsupportedOperatorsError) as error:
        sin_of_relu().to_executorch()
    message = str(error.value)
    assert re.search(r"aten\.relu\.default  x1  %relu in 'forward', modules\.py:\d+\n", message)
    assert "  aten.sin.default   x1" in message
    assert "adding @pteron//backends/cpu to the deps of the Bazel target" in message


def test_a_backend_is_found_by_its_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("some_backends", "some_backends/with_leftovers", "some_backends/without"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "some_backends" / "with_leftovers" / "leftovers.py").write_text(
        "from pteron.exir.backend.leftovers import register_leftover_partitioner\n"
        "from pteron.exir.tests.backends import OpsPartitioner\n"
        "register_leftover_partitioner(lambda lowered: OpsPartitioner())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(leftovers, "_make", None)
    monkeypatch.setattr(leftovers, "_BACKENDS", "some_backends")
    assert backends(sin_of_relu().to_executorch()) == ["GraphBackend"]


class Refuses(OpsPartitioner):
    """Says why it leaves some operators."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        for node in exported_program.graph.nodes:
            if node.target is aten.cumsum.default:
                node.meta[LEFT_OUT_REASON] = "there is no shim for it"
        return super().partition(exported_program)


def test_what_is_refused_is_listed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        leftovers, "_make", lambda lowered: Refuses(but=[aten.cumsum.default, aten.sin.default])
    )
    function = Function(lambda x: x.cumsum(0).sin().cumsum(1).cos().cumsum(0).tan().cumsum(1))
    exported = torch.export.export(function, ((torch.randn(8, 8),),))
    with pytest.raises(UnsupportedOperatorsError) as error:
        to_edge(exported).to_executorch()
    message = str(error.value)
    assert "aten.cumsum.default  x4  %cumsum in 'forward', modules.py:" in message
    assert "(there is no shim for it); %cumsum_1 in" in message and "; 1 more" in message
    assert "aten.sin.default     x1  %sin in 'forward'" in message
    assert "the backend that compiles what is left does not support them" in message
    assert "try:  a partitioner whose backend takes them" in message and "rewrite" in message


def test_every_kernel_is_in_the_runtime() -> None:
    table = Path(kernels.__file__).parents[2] / "runtime" / "kernel" / "kernels.inc"
    listed = re.findall(r"^PTERON_KERNEL\(([\w:.]+)", table.read_text(), re.MULTILINE)
    called = {
        *kernels.SCALAR_KERNELS.values(),
        *kernels.ASSERTIONS.values(),
        kernels.CLONE,
        kernels.COPY,
        kernels.DEVICE_TO_HOST,
        kernels.HOST_TO_DEVICE,
    }
    assert called <= set(listed)
