"""What the CUDA partitioner takes, and its options. Needs no GPU."""

import pytest
import torch
from torch import nn
from torch.export import export

from pteron.backends.cuda import AutotuneRecord, CudaBackend, CudaOptions, CudaPartitioner
from pteron.exir.backend.compile_spec_schema import CompileSpec


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.nn.functional.gelu(self.up(x)))


def test_takes_a_whole_model_as_one_partition() -> None:
    program = export(Mlp(), (torch.randn(4, 16),)).run_decompositions({})
    result = CudaPartitioner().partition(program)
    (tag,) = result.partition_tags
    assert result.partition_tags[tag].backend_id == "CudaBackend"
    calls = [n for n in program.graph.nodes if n.op == "call_function"]
    assert calls and all(node.meta["delegation_tag"] == tag for node in calls)


def test_weights_go_with_the_partition() -> None:
    program = export(Mlp(), (torch.randn(4, 16),)).run_decompositions({})
    CudaPartitioner().partition(program)
    parameters = program.graph_signature.inputs_to_parameters
    nodes = [n for n in program.graph.nodes if n.name in parameters]
    assert len(nodes) == 4 and all("delegation_tag" in node.meta for node in nodes)


def test_leaves_out_what_it_is_told_to() -> None:
    program = export(Mlp(), (torch.randn(4, 16),)).run_decompositions({})
    with pytest.warns(UserWarning, match="gelu"):
        result = CudaPartitioner(leave_out=["aten.gelu.default"]).partition(program)
    assert len(result.partition_tags) == 2


def test_leaves_out_what_the_runtime_has_no_function_for() -> None:
    @torch.library.custom_op("pteron_test::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @thrice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    class Custom(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return thrice(x) + 1

    program = export(Custom(), (torch.randn(4),)).run_decompositions({})
    with pytest.warns(UserWarning, match="thrice.default has no C function"):
        result = CudaPartitioner().partition(program)
    assert len(result.partition_tags) == 1
    (left,) = (n for n in program.graph.nodes if "thrice" in str(n.target))
    assert "delegation_tag" not in left.meta


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
