"""Partitions for CUDA among those of others, and options. Needs no GPU.

What is taken at all is in backends/aoti/tests: test_aoti_partitioner.py and test_op_support.py.
"""

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch.export import ExportedProgram, export
from torch.fx import GraphModule, Node

from pteron.backends.aoti.aoti_partitioner import LeftOutWarning
from pteron.backends.cuda import AutotuneRecord, CudaBackend, CudaOptions, CudaPartitioner
from pteron.exir import ExecutorchBackendConfig
from pteron.exir.backend import leftovers
from pteron.exir.backend.backend_details import PreprocessResult
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.backend.utils import get_non_lowered_nodes
from pteron.exir.graph.delegate import executorch_call_delegate
from pteron.exir.graph.lowered_backend_module import lowered_modules
from pteron.exir.tests.backends import GraphBackend, OpsPartitioner
from pteron.exir.tests.checks import check
from tests.models.cases import Applies


@pytest.fixture
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are interpreted: what matters is where they begin and end."""

    def compile_partition(program: ExportedProgram, options: CudaOptions) -> PreprocessResult:
        return GraphBackend.preprocess(program, [])

    monkeypatch.setattr(CudaBackend, "compile_partition", compile_partition)
    monkeypatch.setattr(leftovers, "_make", lambda lowered: OpsPartitioner(backend="OtherBackend"))


def lowered(model: nn.Module, *calls: Any, partitioner: Any = None) -> Any:
    """The written program, once what it computes was compared with eager."""
    # A machine with a GPU has the backend, which could not read what these partitions became.
    config = ExecutorchBackendConfig(verify=False)
    partitioner = [CudaPartitioner()] if partitioner is None else partitioner
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        return check(model, *calls, partitioner=partitioner, config=config)


def lowered_by(model: nn.Module, *inputs: Any, partitioner: Any = None) -> list[tuple[str, Any]]:
    """Backend and program of each delegate, in the order in which they run."""
    program = lowered(model, inputs, partitioner=partitioner).exported_program()
    assert get_non_lowered_nodes(program.graph) == []
    delegates = [module for _, module in lowered_modules(program.graph_module)]
    return [(each.backend_id, each.original_module) for each in delegates]


def backends(delegates: list[tuple[str, Any]]) -> list[str]:
    return [backend for backend, _ in delegates]


class Cond(nn.Module):
    """A branch in a branch, and a weight that only one of them reads."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def outer(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.max() > 1, lambda x: x * self.weight, torch.cos, (x,))

        return torch.cond(x.sum() > 0, outer, torch.neg, (x,))


class WhileLoop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count, y = torch.while_loop(
            lambda count, y: y.abs().sum() < 100,
            lambda count, y: (count + 1, y * 2 + 0.5),
            (torch.tensor(0), x),
        )
        return y + count


class Scan(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return carry + row, carry * row

        last, rows = scan(step, torch.zeros_like(x[0]), x)
        return rows + last


class Around(nn.Module):
    """An operator with graphs of its own, with work before it, behind it and around it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = torch.tanh(x) * self.scale
        return torch.sigmoid(self.inner(before) + before) * self.scale


def _map() -> nn.Module:
    return Applies(lambda x: map_rows(lambda row, bias: row.sin() + bias, x, x[0] * 0.5))


#: Name of the operator, its model, how many graphs it has by itself.
CONTROL_FLOW = [
    ("cond", Cond, 2),
    ("map", _map, 1),
    ("while_loop", WhileLoop, 2),
    ("scan", Scan, 1),
]
control_flow = pytest.mark.parametrize(
    ("name", "inner", "graphs"), CONTROL_FLOW, ids=[name for name, _, _ in CONTROL_FLOW]
)


def is_control_flow(node: Node) -> bool:
    return isinstance(node.target, torch._ops.HigherOrderOperator)


@control_flow
def test_control_flow_is_in_the_partition_with_its_graphs(
    on_the_host: None, name: str, inner: Any, graphs: int
) -> None:
    program = export(Around(inner()), (torch.randn(3, 4),)).run_decompositions({})
    ((tag, _),) = CudaPartitioner().partition(program).partition_tags.items()
    (call,) = filter(is_control_flow, program.graph.nodes)
    branches = [n for n in program.graph.nodes if n.op == "get_attr"]
    assert name in str(call.target)
    assert len(branches) == graphs
    assert all(node.meta["delegation_tag"] == tag for node in [call, *branches])

    ((backend, part),) = lowered_by(Around(inner()), torch.randn(3, 4))
    assert backend == "CudaBackend"
    (call,) = filter(is_control_flow, part.graph.nodes)
    owned = [n.target for n in call.all_input_nodes if n.op == "get_attr"]
    assert len(owned) == graphs
    assert all(isinstance(getattr(part.graph_module, name), GraphModule) for name in owned)


@control_flow
def test_control_flow_that_is_left_out_keeps_its_graphs(
    on_the_host: None, name: str, inner: Any, graphs: int
) -> None:
    partitioner = [CudaPartitioner(leave_out=is_control_flow)]
    delegates = lowered_by(Around(inner()), torch.randn(3, 4), partitioner=partitioner)
    assert backends(delegates) == ["CudaBackend", "OtherBackend", "CudaBackend"]
    counts = [len([*filter(is_control_flow, part.graph.nodes)]) for _, part in delegates]
    assert counts == [0, 1, 0]


@control_flow
def test_control_flow_between_operators_of_others(
    on_the_host: None, name: str, inner: Any, graphs: int
) -> None:
    left_out = ["aten.tanh.default", "aten.sigmoid.default"]
    partitioner = [CudaPartitioner(leave_out=left_out)]
    delegates = lowered_by(Around(inner()), torch.randn(3, 4), partitioner=partitioner)
    assert backends(delegates) == ["OtherBackend", "CudaBackend", "OtherBackend", "CudaBackend"]
    counts = [len([*filter(is_control_flow, part.graph.nodes)]) for _, part in delegates]
    assert counts == [0, 1, 0, 0]


@control_flow
@pytest.mark.parametrize("is_loop", [False, True])
def test_control_flow_beside_a_foreign_delegate(
    on_the_host: None, name: str, inner: Any, graphs: int, is_loop: bool
) -> None:
    """An earlier partitioner has tanh and the sum after it, or control flow itself."""
    others = {torch.ops.aten.tanh.default, torch.ops.aten.add.Tensor}

    def choose(node: Node) -> bool:
        return is_control_flow(node) if is_loop else node.target in others

    partitioner = [OpsPartitioner(choose=choose), CudaPartitioner()]
    delegates = lowered_by(Around(inner()), torch.randn(3, 4), partitioner=partitioner)
    first, second = ("CudaBackend", "GraphBackend") if is_loop else ("GraphBackend", "CudaBackend")
    assert backends(delegates) == [first, second, *([first] if is_loop else [first, second])]
    counts = [len([*filter(is_control_flow, part.graph.nodes)]) for _, part in delegates]
    assert counts == ([0, 1, 0] if is_loop else [0, 1, 0, 0])


class Diamond(nn.Module):
    """What is behind the product and what goes around it are one set, which is not convex."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Parameter(torch.randn(4, 4))
        self.theirs = nn.Parameter(torch.randn(4, 4))
        self.ours = nn.Parameter(torch.randn(4))
        self.idle = nn.Parameter(torch.randn(4))
        self.register_buffer("idle_buffer", torch.randn(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = x.cos() * self.ours + self.both
        product = torch.mm(torch.mm(before, self.theirs), self.both)
        return product.relu() * self.both + before * self.ours


def constants(part: ExportedProgram) -> set[str]:
    return {str(spec.target) for spec in part.graph_signature.input_specs if spec.target}


def test_a_foreign_delegate_is_gone_around_in_convex_partitions(on_the_host: None) -> None:
    partitioner = [OpsPartitioner([torch.ops.aten.mm.default]), CudaPartitioner()]
    delegates = lowered_by(Diamond(), torch.randn(4, 4), partitioner=partitioner)
    assert backends(delegates) == ["CudaBackend", "GraphBackend", "CudaBackend"]
    for backend, part in delegates:
        targets = {node.target for node in part.graph.nodes if node.op == "call_function"}
        assert (torch.ops.aten.mm.default in targets) == (backend == "GraphBackend")
        assert executorch_call_delegate not in targets


def test_a_foreign_delegate_of_everything_leaves_nothing(on_the_host: None) -> None:
    partitioner = [OpsPartitioner(), CudaPartitioner()]
    delegates = lowered_by(
        Applies(lambda x: tuple(x.sort())), torch.randn(3, 4), partitioner=partitioner
    )
    assert backends(delegates) == ["GraphBackend"]


def test_constants_go_to_their_readers(on_the_host: None) -> None:
    partitioner = [OpsPartitioner([torch.ops.aten.mm.default]), CudaPartitioner()]
    delegates = lowered_by(Diamond(), torch.randn(4, 4), partitioner=partitioner)
    assert [constants(part) for _, part in delegates] == [
        {"both", "ours"},
        {"both", "theirs"},
        {"both", "ours"},
    ]


def test_constants_that_partitions_share_are_in_the_file_once(on_the_host: None) -> None:
    partitioner = [CudaPartitioner(leave_out=["aten.mm.default"])]
    program = lowered(Diamond(), (torch.randn(4, 4),), partitioner=partitioner)
    modules = [module for _, module in lowered_modules(program.exported_program().graph_module)]
    ours = [m.original_module for m in modules if m.backend_id == "CudaBackend"]
    assert [constants(part) for part in ours] == [{"both", "ours"}, {"both", "ours"}]
    stored = program._emitted.data.named_data.pte_data
    assert sum(not key.startswith("model_graph/") for key in stored) == 3


def test_unused_constants_have_the_first_tag(on_the_host: None) -> None:
    model = export(Diamond(), (torch.randn(4, 4),)).run_decompositions({})
    with pytest.warns(LeftOutWarning):
        result = CudaPartitioner(leave_out=["aten.mm.default"]).partition(model)
    first, second = result.partition_tags
    inputs = [node for node in model.graph.nodes if node.op == "placeholder"]
    tags = {node.name: node.meta.get("delegation_tag") for node in inputs}
    assert (tags["p_idle"], tags["b_idle_buffer"]) == (first, first)
    assert tags["p_theirs"] is None, "the owner of the matmul takes it"
    assert tags["p_both"] == tags["p_ours"] == first
    assert tags["x"] is None
    # They are dropped.
    ((_, part),) = lowered_by(Diamond(), torch.randn(4, 4))
    assert constants(part) == {"both", "theirs", "ours"}


class State(nn.Module):
    """A buffer that is written on one side of a product and read on the other."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x[0])
        return torch.mm(x * self.count, x) + self.count


def test_state_around_a_foreign_delegate(on_the_host: None) -> None:
    partitioner = [OpsPartitioner([torch.ops.aten.mm.default]), CudaPartitioner()]
    calls = [(torch.randn(4, 4),) for _ in range(3)]
    program = lowered(State(), *calls, partitioner=partitioner).exported_program()
    ids = [module.backend_id for _, module in lowered_modules(program.graph_module)]
    assert ids == ["CudaBackend", "GraphBackend", "CudaBackend"]


@pytest.mark.parametrize(
    "options",
    [
        CudaOptions(),
        CudaOptions(target_device="cuda:1", gemm="best", autotune="kernels"),
        CudaOptions(architectures=("sm_90",), save_data_externally=False, allow_tf32=True),
        CudaOptions(gemm="best", autotune_record=AutotuneRecord({"torch": "2"}, {}).to_json()),
        CudaOptions(gemm="triton", autotune="exhaustive", emulate_precision_casts=True),
        CudaOptions(weights="one_blob"),
    ],
)
def test_options_survive_the_way_through_compile_specs(options: CudaOptions) -> None:
    assert CudaOptions.from_compile_specs(options.to_compile_specs()) == options


@pytest.mark.parametrize("autotune", ["off", "exhaustive"])
def test_a_search_that_others_turn_on_is_not_made(autotune: str) -> None:
    """torchao's quantize_ turns it on in Inductor's configuration of the process."""
    entries = CudaBackend.get_aoti_compile_options(CudaOptions(autotune=autotune))
    assert entries["coordinate_descent_tuning"] == (autotune == "exhaustive")


@pytest.mark.parametrize("allow_tf32", [False, True])
def test_the_check_knows_of_tf32(allow_tf32: bool) -> None:
    specs = CudaOptions(allow_tf32=allow_tf32).to_compile_specs()
    assert CudaBackend.rounds_to_tf32(specs) == allow_tf32


def test_the_target_device_is_text_that_the_runtime_reads() -> None:
    specs = {
        spec.key: spec.value for spec in CudaOptions(target_device="cuda:1").to_compile_specs()
    }
    assert specs["target_device"] == b"cuda:1"
    assert specs["allow_tf32"] == b"false"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"gemm": "mkl"}, "gemm is 'mkl'; expected one of cublas, triton, best"),
        ({"autotune": "yes"}, "autotune is 'yes'"),
        ({"weights": "packed"}, "weights is 'packed'; expected one of shared, one_blob"),
        ({"target_device": "gpu"}, "target_device is 'gpu'; expected cuda or cuda:<n>"),
        (
            {"architectures": ("hopper", "sm_90", "sm_20")},
            r"architectures has \['hopper', 'sm_20'\]; expected .* from sm_75 on",
        ),
        ({"autotune_record": "{}", "gemm": "best"}, "autotune_record: this is no record of tuning"),
        ({"autotune_record": '{"made_with":{},"files":{}}'}, "there is nothing to choose"),
        ({"allow_tf32": 1}, "allow_tf32 is 1; expected True or False"),
    ],
)
def test_wrong_options_are_named(wrong: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        CudaOptions(**wrong)


def test_all_wrong_options_are_reported_at_once() -> None:
    with pytest.raises(ValueError, match="gemm.*; .*autotune"):
        CudaOptions(gemm="mkl", autotune="yes")


def test_unknown_compile_specs_are_refused() -> None:
    with pytest.raises(ValueError, match="no option 'isa'; known: allow_tf32, "):
        CudaPartitioner([CompileSpec("isa", b'"native"')])


@pytest.mark.parametrize(("weights", "own_blobs"), [("shared", True), ("one_blob", False)])
def test_the_layout_of_weights_is_recorded(weights: str, own_blobs: bool) -> None:
    target = CudaBackend.get_build_target(CudaOptions(weights=weights))
    assert (target.info.weights_layout, target.own_blobs) == (weights, own_blobs)
    assert CudaOptions().weights == "shared"


def test_the_backend_supports_what_is_in_the_shim_lists() -> None:
    kernels = CudaBackend.get_supported_fallback_kernels()
    assert kernels["aoti_torch_cuda_mm_out"] == 1
    assert kernels["aoti_torch_empty_strided"] == 1
    assert "aoti_torch_cpu_mm_out" not in kernels
