"""The front door: managers, several methods, options, files."""

import io
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule, Node

from pteron import exir
from pteron.exir import (
    EdgeCompileConfig,
    ExecutorchBackendConfig,
    MemoryPlanningPass,
    to_edge,
    to_edge_transform_and_lower,
)
from pteron.exir._serialize import schema
from pteron.exir._serialize.program_file import deserialize_program
from pteron.exir._serialize.tensor_data_file import deserialize_tensor_data
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.passes.pass_base import PassResult
from pteron.exir.tests.backends import GraphBackend, OpsPartitioner, OtherBackend, run_delegate
from pteron.exir.tests.checks import check, load, lower
from pteron.exir.tests.interpreter import load as load_file
from pteron.exir.tests.modules import Function, Islands, Mlp
from pteron.runtime import Runtime

aten = torch.ops.aten


def exported(model: nn.Module | None = None) -> torch.export.ExportedProgram:
    return torch.export.export(model or Mlp(), (torch.randn(2, 8),))


def test_import_is_lazy() -> None:
    code = "from pteron import exir; import sys; assert 'torch' not in sys.modules; exir.to_edge"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(exir.__all__) <= set(dir(exir))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        exir.nothing  # noqa: B018


def test_lowering_warns_of_nothing_that_only_torch_could_change() -> None:
    program = exported()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        to_edge_transform_and_lower(program, partitioner=[OpsPartitioner()])
    assert [str(one.message) for one in caught if one.category is FutureWarning] == []


def test_methods_and_constants(tmp_path: Path) -> None:
    model = Mlp()
    edge = to_edge_transform_and_lower(
        {"b": exported(model), "a": exported(model)},
        partitioner={"a": [OpsPartitioner()], "b": OpsPartitioner(backend="OtherBackend")},
        constant_methods={"length": 128, "names": ["x", "y"], "scale": 0.5, "yes": True},
    )
    assert edge.methods == {"a", "b"}
    assert edge.config_methods == {"length", "names", "scale", "yes"}
    program = edge.to_executorch()
    names = [method.name for method in program.executorch_program.methods]
    assert names == ["a", "b", "length", "names", "scale", "yes"]
    # Both methods have the same weights: each is in the file once.
    stored = program._emitted.data.named_data.buffers
    assert sum(blob.alignment == 64 for blob in stored) == 4
    program.save(tmp_path / "model.pte")
    methods = load_file((tmp_path / "model.pte").read_bytes(), run_delegate)
    x = torch.randn(2, 8)
    torch.testing.assert_close(methods["a"](x), [model(x)])
    torch.testing.assert_close(methods["b"](x), [model(x)])
    assert methods["length"]() == [128] and methods["names"]() == ["x", "y"]
    assert methods["scale"]() == [0.5] and methods["yes"]() == [True]
    constants = program.executorch_program.methods[2]
    assert constants.buffer_sizes == [0] and constants.chains == [schema.Chain()]


class Nested(nn.Module):
    """Takes and returns trees."""

    def forward(
        self, ids: torch.Tensor, scale: float, pairs: list[torch.Tensor], *, batch: dict[str, Any]
    ) -> dict[str, Any]:
        return {"y": ids * scale, "state": (pairs[0] + 1, batch["mask"] + 2)}


def names_of(model: nn.Module, args: Any, kwargs: Any, path: Path) -> tuple[list[str], list[str]]:
    lowered = to_edge_transform_and_lower(
        torch.export.export(model, args, kwargs), partitioner=[OpsPartitioner()]
    )
    lowered.to_executorch().save(path)
    meta = Runtime.get().load_program(path).metadata("forward")
    assert meta.output_tensor_meta(0).name() == meta.output_names()[0]
    return meta.input_names(), meta.output_names()


def test_inputs_and_outputs_have_names(tmp_path: Path) -> None:
    x, path = torch.ones(2), tmp_path / "model.pte"
    inputs, outputs = names_of(Nested(), (x, 2.0, [x, x]), {"batch": {"mask": x}}, path)
    assert inputs == ["ids", "scale", "pairs_0", "pairs_1", "batch_mask"]
    assert outputs == ["y", "state_0", "state_1"]
    inputs, _ = names_of(nn.ReLU(), (x,), {}, path)
    assert inputs == ["input"]
    _, outputs = names_of(Function(lambda x: x + 1), ((x,),), {}, path)
    assert outputs == ["output_0"]
    _, outputs = names_of(Function(lambda x: {"a": [x + 1], "a_0": x + 2}), ((x,),), {}, path)
    assert outputs == ["output_0", "output_1"], "which tells them apart"


def test_wrong_arguments() -> None:
    with pytest.raises(
        TypeError, match="found a Mlp, expected an ExportedProgram(.|\n)*pteron.export"
    ):
        to_edge({"forward": Mlp()})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="no methods"):
        to_edge({})
    with pytest.raises(
        TypeError, match=r"found 'cpu', expected instances(.|\n)*CpuPartitioner\(\)"
    ):
        to_edge_transform_and_lower(exported(), partitioner="cpu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"partitioner names \['other'\], but the methods are"):
        to_edge_transform_and_lower(exported(), partitioner={"other": [OpsPartitioner()]})
    with pytest.raises(ValueError, match=r"\['forward'\] are both methods and constant methods"):
        to_edge(exported(), constant_methods={"forward": 1})
    with pytest.raises(KeyError, match="no method 'other'; the methods are"):
        to_edge(exported()).exported_program("other")


def test_files(tmp_path: Path) -> None:
    program = lower(Mlp(), (torch.randn(2, 8),)).to_executorch()
    with pytest.raises(ValueError, match=r"ends in \.pte"):
        program.save(tmp_path / "model.bin")
    program.save(str(tmp_path / "model.pte"))
    stream = io.BytesIO()
    program.write_to_file(stream)
    assert stream.getvalue() == program.buffer == (tmp_path / "model.pte").read_bytes()
    program.write_tensor_data_to_file(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.pte"]


def test_delegates_data_outside(tmp_path: Path) -> None:
    model = Mlp()
    spec = CompileSpec("external_tag", b"aoti_cpu_blob")
    program = lower(model, (torch.randn(2, 8),), partitioner=[OpsPartitioner(specs=[spec])])
    written = program.to_executorch()
    written.write_tensor_data_to_file(tmp_path)
    data = deserialize_tensor_data((tmp_path / "aoti_cpu_blob.ptd").read_bytes())
    assert len(data.named_data) == 4
    assert deserialize_program(written.buffer).named_data.keys() == {
        "external_sha256",
        "model_graph/forward",
    }


class Returned(nn.Module):
    """Returns its constants, which thus belong to no delegate."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3).t())
        self.bias = nn.Parameter(torch.randn(3, 2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, self.weight, self.bias


@pytest.mark.parametrize("where", ["inside", "outside", "by_name"])
def test_constants_outside_of_delegates(where: str) -> None:

    def by_name(node: Node) -> str | None:
        return "biases" if node.name == "p_bias" else None

    choice = {"inside": False, "outside": True, "by_name": by_name}[where]
    model, x = Returned(), torch.randn(3, 2)
    edge = to_edge(torch.export.export(model, (x,)))
    program = edge.to_executorch(ExecutorchBackendConfig(external_constants=choice))
    outside = {"inside": [], "outside": ["_default_external_constant"], "by_name": ["biases"]}
    assert list(program._tensor_data) == outside[where]
    assert len(program._emitted.data.constants) == {"inside": 2, "outside": 0, "by_name": 1}[where]
    data = [deserialize_tensor_data(c.tobytes()) for c in program._tensor_data.values()]
    method = load_file(program.buffer, run_delegate, data)["forward"]
    torch.testing.assert_close(method(x), list(model(x)))


def test_memory_options() -> None:
    model, x = Function(lambda x, y: (x + y) * y), (torch.randn(4), torch.randn(4))

    def planned(**options: bool) -> list[bool]:
        edge = to_edge(torch.export.export(model, (x,)))
        config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(**options))
        (method,) = edge.to_executorch(config).executorch_program.methods
        slots = [*method.inputs, *method.outputs]
        return [method.values[slot].value.allocation is not None for slot in slots]

    assert planned() == [False, False, True]
    assert planned(alloc_graph_input=True) == [True, True, True]
    assert planned(alloc_graph_output=False) == [False, False, False]
    for config in (
        ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(alloc_graph_input=True)),
        ExecutorchBackendConfig(memory_planning_pass={"forward": MemoryPlanningPass(alignment=16)}),
        ExecutorchBackendConfig(extract_delegate_segments=False, emit_stacktrace=True),
        ExecutorchBackendConfig(segment_alignment=4096, constant_tensor_alignment=16),
    ):
        check(Islands(), (torch.randn(2, 4),), (torch.randn(2, 4),), config=config)
    with pytest.raises(ValueError, match=r"memory_planning_pass names \['other'\]"):
        to_edge(torch.export.export(model, (x,))).to_executorch(
            ExecutorchBackendConfig(memory_planning_pass={"other": MemoryPlanningPass()})
        )


def test_stacktraces() -> None:
    config = ExecutorchBackendConfig(emit_stacktrace=True)
    edge = to_edge(torch.export.export(Function(torch.clone), ((torch.randn(3),),)))
    (method,) = edge.to_executorch(config).executorch_program.methods
    (frames,) = method.chains[0].stacktrace
    assert frames.frames[-1].filename.endswith("modules.py")
    assert frames.frames[-1].function == "forward" and frames.frames[-1].line > 0


def test_transform_passes() -> None:
    def doubled(module: GraphModule) -> PassResult:
        for node in module.graph.nodes:
            if node.target is aten.relu.default:
                node.target = aten.neg.default
        return PassResult(module, True)

    model, x = Function(lambda x: torch.relu(x) + 1), torch.randn(3)
    program = torch.export.export(model, ((x,),))
    edge = to_edge_transform_and_lower(program, [doubled], [OpsPartitioner()])
    torch.testing.assert_close(load(edge.to_executorch())["forward"](x), [-x + 1])
    by_name = to_edge_transform_and_lower(program, {"forward": [doubled]}, [OpsPartitioner()])
    torch.testing.assert_close(load(by_name.to_executorch())["forward"](x), [-x + 1])


def test_size_that_lowering_makes_constant_is_refused() -> None:
    dynamic = {0: torch.export.Dim("batch", max=16)}
    program = torch.export.export(Mlp(), (torch.randn(2, 8),), dynamic_shapes=(dynamic,))

    def looks(module: GraphModule) -> None:
        values = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
        assert [int(value.shape[0]) for value in values]

    edge = to_edge_transform_and_lower(program, [looks], OpsPartitioner())
    match = r"dimension 0 of input x is 2 \(by .*test_program.py:\d+ in "
    with pytest.raises(ValueError, match=match):
        edge.to_executorch()


def test_pass_that_drops_an_output_is_refused() -> None:
    def drops(module: GraphModule) -> None:
        module.graph.output_node().args = ((),)

    with pytest.raises(RuntimeError, match="pass drops changed the number of inputs"):
        to_edge(exported()).transform([drops])


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None])
        return nn.functional.layer_norm(self.linear(x[0, 0]), (8,))


def operators(program: torch.export.ExportedProgram) -> set[str]:
    return {str(node.target) for node in program.graph.nodes if node.op == "call_function"}


def test_decompositions() -> None:
    plain = operators(to_edge(exported(Layers())).exported_program())
    assert "aten.native_layer_norm.default" in plain and "aten.bmm.default" in plain
    assert not any("attention" in op or "linear" in op for op in plain)
    config = EdgeCompileConfig(preserve_ops=[aten.linear.default], _check_ir_validity=False)
    kept = operators(to_edge(exported(Layers()), compile_config=config).exported_program())
    assert "aten.linear.default" in kept and "aten.layer_norm.default" not in kept


def test_flags_of_scripts_that_move_over_are_taken() -> None:
    config = EdgeCompileConfig(
        _check_ir_validity=False,
        _use_edge_ops=True,
        _core_aten_ops_exception_list=[aten.linear.default],
    )
    moved = operators(to_edge(exported(Layers()), compile_config=config).exported_program())
    assert moved == operators(to_edge(exported(Layers())).exported_program())
    with pytest.raises(TypeError, match="_no_such_flag"):
        EdgeCompileConfig(_no_such_flag=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="preserve_ops lists .*expected operators with their over"):
        EdgeCompileConfig(preserve_ops=[aten.linear])


def test_partitioners_keep_operators_whole() -> None:
    edge = lower(Layers(), (torch.randn(2, 8),), partitioner=[OpsPartitioner(whole=True)])
    ops = {str(n.target) for _, m in _modules(edge) for n in m.nodes()}
    assert {"aten.linear.default", "aten.layer_norm.default"} <= ops
    assert "aten.scaled_dot_product_attention.default" in ops


def _modules(edge: exir.EdgeProgramManager) -> list:
    from pteron.exir.graph.lowered_backend_module import lowered_modules

    return lowered_modules(edge.exported_program().graph_module)


def test_partitioner_may_want_some_calls_whole() -> None:
    class Some(OpsPartitioner):
        def ops_to_not_decompose(self, ep):  # type: ignore[no-untyped-def]
            def wide(node: Node) -> bool:
                return node.args[1].meta["val"].shape[0] > 4

            return [aten.linear.default], wide

    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
    edge = to_edge_transform_and_lower(exported(model), partitioner=[Some()])
    ((_, module),) = _modules(edge)
    counts = [str(node.target) for node in module.nodes()]
    assert counts.count("aten.linear.default") == 1 and counts.count("aten.addmm.default") == 1


@pytest.mark.parametrize("same", [True, False])
def test_inputs_exported_with_one_tensor_are_warned_of(
    same: bool, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.ones(2)
    given = (x, x if same else x.clone(), 2 * x)
    to_edge(torch.export.export(Function(lambda x, y, z: x + y), (given,)))
    expected = (
        "ignores input 0 (inputs_0): it was exported with one tensor for inputs_0 and inputs_1"
    )
    assert (expected in caplog.text) is same and "inputs_2" not in caplog.text


def test_a_program_of_a_module_in_training_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.BatchNorm1d(2))
    for training in (False, True):
        to_edge(torch.export.export(module.train(training), (torch.ones(3, 2),)))
        text = "".join(record.getMessage() for record in caplog.records)
        assert ("training mode: aten.batch_norm.default, aten.dropout.default" in text) is training


def test_a_program_that_no_machine_runs_is_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GraphBackend, "get_platform", lambda specs: "macos-arm64")
    for other in ("", "macos-arm64", "linux-x86_64"):
        monkeypatch.setattr(OtherBackend, "get_platform", lambda specs, other=other: other)
        some = OpsPartitioner([aten.addmm.default])
        edge = to_edge_transform_and_lower(exported(), partitioner=[some])
        edge.to_executorch(ExecutorchBackendConfig(verify=False))  # OtherBackend takes what is left
        text = "".join(record.getMessage() for record in caplog.records)
        assert ("for linux-x86_64 (OtherBackend) and for macos-arm64 (GraphBackend)" in text) is (
            other == "linux-x86_64"
        )
