"""Backends are final, have unique names, and are found by them."""

import gc

import pytest
import torch
from torch.export import ExportedProgram

from pteron.exir import to_edge_transform_and_lower
from pteron.exir.backend.backend_api import MethodProgramsPartitionerSpec, to_backend
from pteron.exir.backend.backend_details import (
    BackendDetails,
    PreprocessResult,
    find_backend,
    known_backends,
)
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.graph.lowered_backend_module import lowered_modules
from pteron.exir.tests.backends import GraphBackend, OpsPartitioner, run_delegate
from pteron.exir.tests.checks import load
from pteron.exir.tests.interpreter import load as load_file
from pteron.exir.tests.modules import Cache, Function, Mlp


class Shared:
    """A mixin: what backends share, but no backend itself."""

    @classmethod
    def preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        return PreprocessResult(b"shared")


def test_backend_is_final() -> None:
    with pytest.raises(TypeError, match="backends are final") as error:

        class Derived(GraphBackend):
            pass

    assert "class Derived(SharedMixin, BackendDetails)" in str(error.value)
    assert "Derived" not in known_backends()


def test_mixin_is_no_backend() -> None:
    class Mixed(Shared, BackendDetails):
        pass

    assert find_backend("Mixed") is Mixed
    assert "Shared" not in known_backends()


def test_two_backends_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match="there is a backend named GraphBackend already"):
        type("GraphBackend", (Shared, BackendDetails), {})


def test_name_is_free_again_when_its_backend_is_gone() -> None:
    backend = type("Passing", (Shared, BackendDetails), {})
    del backend
    gc.collect()
    assert "Passing" not in known_backends()
    type("Passing", (Shared, BackendDetails), {})


def test_unknown_backend_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no backend is named 'Nobody'; known.*GraphBackend"):
        find_backend("Nobody")
    program = torch.export.export(Mlp(), (torch.randn(2, 8),))
    with pytest.raises(ValueError, match="no backend is named 'Nobody'"):
        to_edge_transform_and_lower(program, partitioner=[OpsPartitioner(backend="Nobody")])


def test_method_name_is_put_in() -> None:
    programs = {
        name: torch.export.export(Mlp(), (torch.randn(2, 8),)) for name in ("encode", "decode")
    }
    given = CompileSpec("level", b"3")
    edge = to_edge_transform_and_lower(programs, partitioner=[OpsPartitioner(specs=[given])])
    for name in programs:
        ((_, module),) = lowered_modules(edge.exported_program(name).graph_module)
        assert module.compile_specs == [given, CompileSpec("method_name", name.encode())]


def test_method_name_that_is_given_stays() -> None:
    program = torch.export.export(Mlp(), (torch.randn(2, 8),))
    given = CompileSpec("method_name", b"mine")
    edge = to_edge_transform_and_lower(program, partitioner=[OpsPartitioner(specs=[given])])
    ((_, module),) = lowered_modules(edge.exported_program().graph_module)
    assert module.compile_specs == [given]


def test_backend_is_asked_once_for_all_methods() -> None:
    asked = []

    class AllAtOnce(Shared, BackendDetails):
        @classmethod
        def preprocess_multimethod(
            cls,
            edge_programs: dict[str, list[ExportedProgram]],
            compile_specs: dict[str, list[list[CompileSpec]]],
        ) -> dict[str, list[PreprocessResult]]:
            asked.append({name: len(programs) for name, programs in edge_programs.items()})
            assert compile_specs["b"][0][0].value == b"b"
            return super().preprocess_multimethod(edge_programs, compile_specs)

    programs = {n: torch.export.export(Mlp(), (torch.randn(2, 8),)) for n in ("a", "b", "c")}
    to_edge_transform_and_lower(
        programs, partitioner={n: [OpsPartitioner(backend="AllAtOnce")] for n in ("a", "b")} | {
            "c": [OpsPartitioner()]
        },
    )  # fmt: skip
    assert asked == [{"a": 1, "b": 1}]


def test_wrong_number_of_results_is_refused() -> None:
    class Short(Shared, BackendDetails):
        @classmethod
        def preprocess_multimethod(
            cls,
            edge_programs: dict[str, list[ExportedProgram]],
            compile_specs: dict[str, list[list[CompileSpec]]],
        ) -> dict[str, list[PreprocessResult]]:
            return {}

    program = torch.export.export(Mlp(), (torch.randn(2, 8),))
    with pytest.raises(RuntimeError, match="returned 0 results for the 1 partitions"):
        to_edge_transform_and_lower(program, partitioner=[OpsPartitioner(backend="Short")])


def test_partition_that_a_backend_gets() -> None:
    """State is a mutated user input, constants are the model's own tensors, tags are gone."""
    seen = []

    class Looks(Shared, BackendDetails):
        @classmethod
        def preprocess(
            cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
        ) -> PreprocessResult:
            seen.append(edge_program)
            return PreprocessResult(b"")

    model = Cache()
    program = torch.export.export(model, (torch.ones(1, 4), torch.tensor([0])))
    weight = program.state_dict["proj.weight"]
    to_edge_transform_and_lower(program, partitioner=[OpsPartitioner(backend="Looks")])
    (got,) = seen
    assert got.state_dict["proj.weight"].data_ptr() == weight.data_ptr()
    assert got.graph_signature.buffers == ()
    assert list(got.graph_signature.user_inputs_to_mutate.values()) == ["b_keys"]
    assert not any("delegation_tag" in node.meta for node in got.graph.nodes)


def test_whole_program_as_a_module() -> None:
    """A lowered module runs eagerly, and exports as a part of another model."""
    function = Function(lambda x, y: {"sum": x + y})
    example = ((torch.randn(3), torch.randn(3)),)
    program = torch.export.export(function, example).run_decompositions({})
    lowered = to_backend("GraphBackend", program, [])

    class Composite(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lowered = lowered

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lowered((x * 2, x))["sum"] - 1

    model, x = Composite(), torch.randn(3)
    torch.testing.assert_close(model(x), x * 3 - 1)
    exported = torch.export.export(model, (x,), strict=False)
    edge = to_edge_transform_and_lower(
        exported, partitioner=[OpsPartitioner(backend="OtherBackend")]
    )
    modules = lowered_modules(edge.exported_program().graph_module)
    assert [m.backend_id for _, m in modules] == ["OtherBackend", "GraphBackend", "OtherBackend"]
    (result,) = load(edge.to_executorch())["forward"](x)
    torch.testing.assert_close(result, x * 3 - 1)
    with pytest.raises(TypeError, match="was exported with arguments"):
        lowered(x)


def test_whole_program_with_state_is_refused() -> None:
    program = torch.export.export(Cache(), (torch.ones(1, 4), torch.tensor([0])))
    with pytest.raises(ValueError, match="the program changes keys. State belongs to the program"):
        to_backend("GraphBackend", program.run_decompositions({}), [])


def test_to_backend_takes_partitioners_and_methods() -> None:
    program = torch.export.export(Mlp(), (torch.randn(2, 8),)).run_decompositions()
    lowered = to_backend(program, OpsPartitioner())
    assert len(lowered_modules(lowered.graph_module)) == 1
    both = to_backend(
        MethodProgramsPartitionerSpec({"a": program, "b": program}, {"a": OpsPartitioner()})
    )
    assert len(lowered_modules(both["a"].graph_module)) == 1
    assert both["b"] is program
    with pytest.raises(TypeError, match="to_backend takes"):
        to_backend(3)


def test_preprocess_must_return_a_result() -> None:
    class Wrong(Shared, BackendDetails):
        @classmethod
        def preprocess(cls, edge_program, compile_specs):  # type: ignore[no-untyped-def]
            return b"bytes"

    program = torch.export.export(Mlp(), (torch.randn(2, 8),))
    with pytest.raises(TypeError, match="preprocess of Wrong returned bytes"):
        to_edge_transform_and_lower(program, partitioner=[OpsPartitioner(backend="Wrong")])


def test_lowered_modules_are_shared_by_copies() -> None:
    import copy

    program = torch.export.export(Mlp(), (torch.randn(2, 8),))
    edge = to_edge_transform_and_lower(program, partitioner=[OpsPartitioner()])
    ((_, module),) = lowered_modules(edge.exported_program().graph_module)
    assert copy.deepcopy(module) is module
    assert load_file(edge.to_executorch().buffer, run_delegate).keys() == {"forward"}
