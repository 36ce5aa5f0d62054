"""The report says what is in the program, as data and as a table."""

import re

import torch

from pteron.exir import to_edge, to_edge_transform_and_lower
from pteron.exir._serialize.named_data_store import NamedDataStore
from pteron.exir.backend.backend_details import BackendDetails, PreprocessResult
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.backend.partition_boundary import boundaries_of_nodes
from pteron.exir.tests.backends import OpsPartitioner
from pteron.exir.tests.modules import Function, Islands

aten = torch.ops.aten


def test_report() -> None:
    model = Islands()
    programs = {n: torch.export.export(model, (torch.randn(2, 4),)) for n in ("a", "b")}
    partitioner = OpsPartitioner(but=[aten.relu.default])
    edge = to_edge_transform_and_lower(programs, partitioner=[partitioner])
    report = edge.explain()
    first, second = report.methods
    assert (first.name, second.name) == ("a", "b")
    assert first.inputs == ["x float32[2, 4]"] and first.state == ["total float32[4]"]
    assert first.kernels == {} and first.pending == {"aten.relu.default": 2}
    part = first.partitions[0]
    assert part.backend_id == "GraphBackend"
    assert part.op_counts == {"aten.addmm.default": 1, "aten.permute.default": 1}
    assert part.boundaries == [
        f"before %relu (aten.relu.default, modules.py:{_line()}): no partitioner took it"
    ]
    assert any(line.startswith("after %relu (") for line in first.partitions[1].boundaries)
    weight = report.constants[0]
    assert (weight.name, weight.nbytes, weight.copies) == ("linear.weight", 64, 1)
    assert len(weight.partitions) == 4 and report.duplicated_nbytes == 0
    program = edge.to_executorch()
    assert program.explain().file_nbytes == len(program.buffer)
    text = str(report)
    assert "method        a" in text and "  pending     2 aten.relu: compiled" in text
    assert "linear.weight in 4 delegates" in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_inputs_have_the_names_and_bounds_of_the_model() -> None:
    batch = torch.export.Dim("batch", max=8)
    exported = torch.export.export(
        torch.nn.Linear(4, 2), (torch.randn(2, 4),), dynamic_shapes=({0: batch},)
    )
    (method,) = to_edge_transform_and_lower(exported).explain().methods
    (described,) = method.inputs
    assert re.fullmatch(r"input float32\[s\d+ <= 8, 4\]", described)


def _line() -> int:
    import inspect

    lines, start = inspect.getsourcelines(Islands.forward)
    return start + next(i for i, line in enumerate(lines) if "y = torch.relu" in line)


def test_backends_learn_where_a_partition_ends() -> None:
    seen: list[list[str]] = []

    class Boundaries(BackendDetails):
        @classmethod
        def preprocess(cls, edge_program, compile_specs):  # type: ignore[no-untyped-def]
            seen.append(edge_program.graph_module.meta["partition_boundaries"])
            return PreprocessResult(b"")

    exported = torch.export.export(Function(lambda x: torch.relu(x.sin()).cos().tan()), ((x(),),))
    one_each = [
        OpsPartitioner([aten.tan.default]),
        OpsPartitioner(but=[aten.relu.default], backend="Boundaries"),
    ]
    to_edge_transform_and_lower(exported, partitioner=one_each)
    relu = "%relu (aten.relu.default, modules.py:"
    assert [len(lines) for lines in seen] == [1, 2]
    assert seen[0][0].startswith(f"before {relu}") and seen[1][0].startswith(f"after {relu}")
    assert seen[1][1] == "before lowered_module_0 of GraphBackend"


def test_neighbours_of_one_partitioner_are_named_by_their_tags() -> None:
    program = to_edge(
        torch.export.export(Function(lambda x: x.sin().cos()), ((x(),),))
    ).exported_program()
    first, second = [n for n in program.graph.nodes if n.op == "call_function"]
    first.meta["delegation_tag"], second.meta["delegation_tag"] = "a", "b"
    backend = {"a": "One", "b": "Two"}.__getitem__
    assert boundaries_of_nodes([first], backend) == ["before b of Two"]
    assert boundaries_of_nodes([second], backend) == ["after a of One"]
    assert boundaries_of_nodes([first, second], backend) == []


def x() -> torch.Tensor:
    return torch.randn(3)


def test_duplicates_and_details() -> None:
    class Packs(BackendDetails):
        """Stores constants in a layout of its own, so that equal ones are not shared."""

        @classmethod
        def preprocess(cls, edge_program, compile_specs):  # type: ignore[no-untyped-def]
            store = NamedDataStore()
            store.add_named_data(compile_specs[-1].value.decode(), compile_specs[-1].value * 9)
            output = store.get_named_data_store_output()
            return PreprocessResult(b"p", data_store_output=output)

        @classmethod
        def describe(cls, processed_bytes, data_store_output):  # type: ignore[no-untyped-def]
            return {"target": f"x86-64-v3, {len(data_store_output.buffers)} blob"}

    model = Islands()
    programs = {n: torch.export.export(model, (torch.randn(2, 4),)) for n in ("a", "b")}
    spec = CompileSpec("method_name", b"")
    del spec
    edge = to_edge_transform_and_lower(programs, partitioner=[OpsPartitioner(backend="Packs")])
    report = edge.explain()
    assert report.duplicated_nbytes == 64 + 16
    assert report.constants[0].copies == 2
    text = str(report)
    assert "linear.weight in 2 delegates, stored 2 times" in text
    assert "80 B  stored again, since delegates own copies" in text
    assert "    target    x86-64-v3, 1 blob" in text
    assert "    boundary  inputs and outputs of the method" in text
