"""Two real backends in one program: each takes what the other leaves, in either order.

The model is lowered twice (two partitions for the CPU backend each time), saved, loaded by the
runtime and compared with eager over several calls, state included.
"""

import copy
from pathlib import Path

import pytest
import torch
from torch.export import Dim, ExportedProgram

from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.backends.example.blas.blas_backend import PRODUCTS
from pteron.backends.example.blas.blas_partitioner import BlasPartitioner
from pteron.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from pteron.exir.backend.partitioner import DELEGATION_TAG, Partitioner
from pteron.exir.backend.utils import get_non_lowered_nodes
from pteron.exir.config import EdgeCompileConfig
from pteron.exir.graph.lowered_backend_module import lowered_modules
from pteron.runtime import Runtime
from tests.stacking.model import WIDTH, Interleaved


@pytest.fixture(scope="module")
def model() -> Interleaved:
    torch.manual_seed(0)
    return Interleaved().eval()


def export(model: Interleaved) -> ExportedProgram:
    return torch.export.export(
        copy.deepcopy(model), (torch.randn(2, WIDTH),), dynamic_shapes=({0: Dim("batch", max=16)},)
    )


def partitioners(order: str, *, external: bool = False) -> list[Partitioner]:
    blas = BlasPartitioner(external_tag="blas_weights" if external else "")
    options = CpuOptions(save_data_externally=external)
    if order == "blas_first":
        return [blas, CpuPartitioner(options)]
    return [CpuPartitioner(options, leave_out=PRODUCTS), blas]


@pytest.fixture(scope="module", params=["blas_first", "cpu_first"])
def order(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def lowered(order: str, model: Interleaved) -> EdgeProgramManager:
    """One order has the data of both in the program, the other beside it."""
    chosen = partitioners(order, external=order == "blas_first")
    return to_edge_transform_and_lower(export(model), partitioner=chosen)


def delegates(program: ExportedProgram) -> list[tuple[str, set[str]]]:
    """Backend and operators of each delegate, in order of execution."""
    return [
        (module.backend_id, {str(node.target).split(".")[1] for node in module.nodes()})
        for _, module in lowered_modules(program.graph_module)
    ]


def test_islands(lowered: EdgeProgramManager) -> None:
    program = lowered.exported_program()
    assert get_non_lowered_nodes(program.graph) == []
    found = delegates(program)
    assert [name for name, _ in found].count("CpuBackend") == 2
    products = {str(op).split(".")[1] for op in PRODUCTS}
    for name, operators in found:
        assert (operators <= products) if name == "BlasBackend" else not operators & products
    # One backend's result is the other's input, several times over.
    names = [name for name, _ in found]
    assert sum(a != b for a, b in zip(names, names[1:], strict=False)) >= 4


def test_constants_belong_to_who_uses_them(lowered: EdgeProgramManager) -> None:
    program = lowered.exported_program()
    left = [spec.target for spec in program.graph_signature.input_specs if spec.target]
    assert sorted(left) == ["count", "memory", "trace"]  # state stays, everything else moved
    owners: dict[str, set[str]] = {}
    for _, module in lowered_modules(program.graph_module):
        for spec in module.original_module.graph_signature.input_specs:
            if spec.target:
                owners.setdefault(spec.target, set()).add(module.backend_id)
    assert owners["both"] == owners["row"] == {"BlasBackend", "CpuBackend"}
    assert owners["up.weight"] == owners["down.weight"] == {"BlasBackend"}
    lifted = owners.keys() - {"both", "row", "up.weight", "up.bias", "down.weight", "unused"}
    assert [owners[name] for name in lifted] == [{"CpuBackend"}]


def test_runs_equal_to_eager(
    order: str, model: Interleaved, lowered: EdgeProgramManager, tmp_path: Path
) -> None:
    program = lowered.to_executorch()
    program.save(tmp_path / "stack.pte")
    program.write_tensor_data_to_file(tmp_path)
    beside = sorted(tmp_path.glob("*.ptd"))
    external = ["aoti_cpu_blob.ptd", "blas_weights.ptd"] if order == "blas_first" else []
    assert [path.name for path in beside] == external

    loaded = Runtime.get().load_program(tmp_path / "stack.pte", data_path=beside)
    method = loaded.load_method("forward")
    eager = copy.deepcopy(model)
    for batch in (2, 16, 1, 7):
        x = torch.randn(batch, WIDTH)
        with torch.no_grad():
            expected = eager(x)
        found = tuple(method.execute([x]))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert found[2] == 5  # four calls, and the one that it adds
    with torch.no_grad():
        forgetful = copy.deepcopy(model)(x)
    assert not torch.allclose(found[0], forgetful[0], rtol=1e-2), "state made no difference"


@pytest.mark.parametrize("order", ["blas_first"], indirect=True, scope="module")
def test_missing_external_data_is_named(lowered: EdgeProgramManager, tmp_path: Path) -> None:
    program = lowered.to_executorch()
    program.save(tmp_path / "stack.pte")
    program.write_tensor_data_to_file(tmp_path)
    for missing, name in (("blas_weights", "_blas_weight"), ("aoti_cpu_blob", "_weight")):
        beside = [path for path in tmp_path.glob("*.ptd") if path.stem != missing]
        loaded = Runtime.get().load_program(tmp_path / "stack.pte", data_path=beside)
        with pytest.raises(Exception, match=name):
            loaded.load_method("forward")


def edge(model: Interleaved) -> ExportedProgram:
    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.linear.default])
    return to_edge(export(model), compile_config=config).exported_program()


def test_who_is_first_takes_all_that_it_can(model: Interleaved) -> None:
    program = edge(model)
    taken = CpuPartitioner().partition(program)
    assert len(taken.partition_tags) == 1
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    assert all(DELEGATION_TAG in node.meta for node in calls)


def test_who_is_second_touches_nothing_of_the_first(model: Interleaved) -> None:
    first = EdgeProgramManager(edge(model)).to_backend(BlasPartitioner()).exported_program()
    second = CpuPartitioner().partition(first).tagged_exported_program
    free = set(get_non_lowered_nodes(second.graph))
    for node in second.graph.nodes:
        if node.op == "call_function":
            assert (DELEGATION_TAG in node.meta) == (node in free), node
    placeholders = [node for node in second.graph.nodes if node.op == "placeholder"]
    tags = {node.name: node.meta.get(DELEGATION_TAG) for node in placeholders}
    assert "p_up_weight" not in tags  # moved into the first one's delegate
    assert tags["p_both"] and tags["p_row"], "used by both, so there for the second as well"
    assert tags["p_unused"] == "cpu_0"  # goes with the first partition, which drops it
    assert tags["x"] is None
