"""Tags become partitions: convexity, order, constants, shape arithmetic, several backends."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from pteron.exir import to_edge, to_edge_transform_and_lower
from pteron.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from pteron.exir.backend.partitions import Partition, plan_partitions
from pteron.exir.backend.utils import (
    get_delegates,
    get_non_lowered_nodes,
    is_identical_graph,
    tag_constant_data,
    tag_mutated_buffer,
)
from pteron.exir.graph.lowered_backend_module import lowered_modules
from pteron.exir.tests.backends import OpsPartitioner
from pteron.exir.tests.checks import check, lower
from pteron.exir.tests.modules import Cache, Function, Islands, Mlp

aten = torch.ops.aten


class TagPartitioner(Partitioner):
    """Gives nodes the tags that a dict says, by name."""

    def __init__(self, tags: dict[str, str], edit: Callable[..., Any] | None = None) -> None:
        self.tags = tags
        self.edit = edit

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        for node in exported_program.graph.nodes:
            if node.name in self.tags:
                node.meta["delegation_tag"] = self.tags[node.name]
        if self.edit:
            self.edit(exported_program)
        specs = {tag: DelegationSpec("GraphBackend", []) for tag in set(self.tags.values())}
        return PartitionResult(exported_program, specs)


def edge_program(function: Callable[..., Any], *inputs: torch.Tensor) -> ExportedProgram:
    module = Function(function)
    return to_edge(torch.export.export(module, (inputs,))).exported_program()


def delegated(program: ExportedProgram) -> list[list[str]]:
    """Operators of each delegate, in order of execution."""
    return [
        [str(node.target).removeprefix("aten.") for node in module.nodes()]
        for _, module in lowered_modules(program.graph_module)
    ]


def test_nodes_of_one_tag_become_one_delegate() -> None:
    program = lower(Mlp(), (torch.randn(2, 8),)).exported_program()
    assert len(delegated(program)) == 1
    assert get_non_lowered_nodes(program.graph) == []
    assert len(get_delegates(program.graph)) == 1


def test_circle_is_named() -> None:
    program = edge_program(lambda x: torch.relu(x + 1) * 2, torch.randn(3))
    with pytest.raises(ValueError) as error:
        to_edge_transform_and_lower(program, partitioner=[TagPartitioner({"add": "a", "mul": "a"})])
    message = str(error.value)
    assert "in a cycle" in message
    assert "relu (aten.relu.default, modules.py:" in message
    assert "partition 'a' needs relu" in message and "mul uses relu" in message


def test_circle_of_two_partitions_is_named() -> None:
    def crossed(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.relu(x) + y.sin(), torch.relu(y) * x.cos()

    # Each tag alone is convex, but a needs sin of b, and b needs relu_1 of a.
    program = edge_program(crossed, torch.randn(3), torch.randn(3))
    tags = {"add": "a", "relu_1": "a", "sin": "b", "mul": "b"}
    with pytest.raises(ValueError, match="partition 'a' needs partition 'b': add uses sin"):
        to_edge_transform_and_lower(program, partitioner=[TagPartitioner(tags)])


def test_order_follows_dependencies_across_partitions() -> None:
    module = Function(lambda x, y: (torch.relu(x + 1), torch.relu(y * 2) - x, y * 3))
    program = check(
        module,
        ((torch.randn(3), torch.randn(3)),),
        partitioner=[OpsPartitioner([aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor])],
    )
    assert sum(len(ops) for ops in delegated(program.exported_program())) == 6


def test_partitioner_that_edits_the_graph_is_refused() -> None:
    def edit(program: ExportedProgram) -> None:
        next(n for n in program.graph.nodes if n.name == "add").args = ()

    program = edge_program(lambda x: x + 1, torch.randn(3))
    with pytest.raises(RuntimeError, match="TagPartitioner.partition edited the graph of method"):
        to_edge_transform_and_lower(program, partitioner=[TagPartitioner({}, edit)])


def test_tag_without_spec_is_refused() -> None:
    class Forgets(TagPartitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            return PartitionResult(super().partition(exported_program).tagged_exported_program, {})

    program = edge_program(lambda x: x + 1, torch.randn(3))
    with pytest.raises(ValueError, match=r"tagged nodes of method 'forward' with \['a'\]"):
        to_edge_transform_and_lower(program, partitioner=[Forgets({"add": "a"})])


def test_tagged_input_is_refused() -> None:
    program = edge_program(lambda x: x + 1, torch.randn(3))
    name = program.graph_signature.user_inputs[0]
    with pytest.raises(ValueError, match="Inputs belong to the caller"):
        to_edge_transform_and_lower(program, partitioner=[TagPartitioner({"add": "a", name: "a"})])


class Weights(nn.Module):
    """A weight for each side, one for both, and one for nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Parameter(torch.randn(3))
        self.both = nn.Parameter(torch.randn(3))
        self.right = nn.Parameter(torch.randn(3))
        self.unused = nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.left + self.both) - self.right - self.both


def owned(program: ExportedProgram) -> list[set[str]]:
    """Constants of each delegate."""
    return [
        {str(s.target) for s in module.original_module.graph_signature.input_specs if s.target}
        for _, module in lowered_modules(program.graph_module)
    ]


def test_constants_go_with_their_users() -> None:
    partitioner = OpsPartitioner(but=[aten.relu.default])
    program = check(Weights(), (torch.randn(3),), partitioner=[partitioner])
    assert owned(program.exported_program()) == [{"left", "both"}, set(), {"both", "right"}]
    assert program.exported_program().graph_signature.parameters == ("unused",)
    # One copy of each, and the unused one nowhere.
    stored = program._emitted.data.named_data.buffers
    assert sum(blob.alignment == 64 for blob in stored) == 3
    assert program._emitted.data.constants == []


def test_constants_stay_outside_for_others() -> None:
    partitioner = OpsPartitioner([aten.mul.Tensor, aten.add.Tensor])
    program = check(Weights(), (torch.randn(3),), partitioner=[partitioner])
    parameters = program.exported_program().graph_signature.parameters
    assert owned(program.exported_program()) == [{"left", "both"}, {"both", "right"}]
    assert parameters == ("unused",)


def test_untagged_constants_are_arguments() -> None:
    program = to_edge(torch.export.export(Weights(), (torch.randn(3),))).exported_program()
    tags = {n.name: "a" for n in program.graph.nodes if n.op == "call_function"}
    lowered = to_edge_transform_and_lower(program, partitioner=[TagPartitioner(tags)])
    ((call, _),) = lowered_modules(lowered.exported_program().graph_module)
    assert [str(arg) for arg in call.args[1:]] == ["p_left", "p_both", "p_right", "x"]


def test_no_copy_constant_of_two_partitions_is_refused() -> None:
    class NoCopy(OpsPartitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            result = super().partition(exported_program)
            for node in exported_program.graph.find_nodes(op="placeholder"):
                node.meta["no_copy"] = True
            return result

    program = torch.export.export(Weights(), (torch.randn(3),))
    with pytest.raises(ValueError, match="constant both is marked no_copy"):
        to_edge_transform_and_lower(program, partitioner=[NoCopy(but=[aten.relu.default])])


def test_tagged_unused_constant_leaves_the_program() -> None:
    class TakesAll(OpsPartitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            result = super().partition(exported_program)
            unused = next(n for n in exported_program.graph.nodes if n.name == "p_unused")
            unused.meta["delegation_tag"] = "part0"
            return result

    program = check(Weights(), (torch.randn(3),), partitioner=[TakesAll()])
    assert program.exported_program().graph_signature.parameters == ()


def test_tagging_helpers() -> None:
    example = (torch.randn(1, 4), torch.tensor([0]))
    program = to_edge(torch.export.export(Cache(), example)).exported_program()
    for node in get_non_lowered_nodes(program.graph):
        node.meta["delegation_tag"] = "all"
    tag_constant_data(program)

    def tagged() -> set[str]:
        placeholders = program.graph.find_nodes(op="placeholder")
        return {n.name for n in placeholders if "delegation_tag" in n.meta}

    assert tagged() == {"p_proj_weight", "p_proj_bias"}
    tag_mutated_buffer(program)
    assert tagged() == {"p_proj_weight", "p_proj_bias", "b_keys"}


def test_tagged_state_stays_with_the_program() -> None:
    class TagsState(OpsPartitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            result = super().partition(exported_program)
            tag_mutated_buffer(exported_program)
            return result

    calls = [(torch.randn(1, 4), torch.tensor([index])) for index in range(3)]
    program = check(Cache(), *calls, partitioner=[TagsState()])
    assert program.exported_program().graph_signature.buffers == ("keys",)
    assert owned(program.exported_program()) == [{"proj.weight", "proj.bias"}]


@pytest.mark.parametrize("order", ["linear_first", "linear_last"])
def test_two_backends_stacked(order: str) -> None:
    linear = [aten.addmm.default, aten.permute.default]
    partitioners = {
        "linear_first": [
            OpsPartitioner(linear, backend="OtherBackend", prefix="linear"),
            OpsPartitioner(but=[aten.relu.default]),
        ],
        "linear_last": [
            OpsPartitioner(but=[*linear, aten.relu.default]),
            OpsPartitioner(linear, backend="OtherBackend", prefix="linear"),
        ],
    }[order]
    calls = [(torch.randn(2, 4),) for _ in range(3)]
    program = check(Islands(), *calls, partitioner=partitioners)
    backends = {m.backend_id for _, m in lowered_modules(program.exported_program().graph_module)}
    assert backends == {"GraphBackend", "OtherBackend"}
    # Nobody takes a delegate's call again.
    for _, module in lowered_modules(program.exported_program().graph_module):
        assert not lowered_modules(module.original_module.graph_module)


def test_each_partitioner_sees_what_is_left() -> None:
    seen: list[list[str]] = []

    class Looks(OpsPartitioner):
        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            nodes = get_non_lowered_nodes(exported_program.graph)
            seen.append([str(node.target) for node in nodes])
            return super().partition(exported_program)

    program = edge_program(lambda x: torch.relu(x + 1) * 2, torch.randn(3))
    to_edge_transform_and_lower(
        program, partitioner=[Looks([aten.relu.default]), Looks(prefix="rest")]
    )
    assert seen == [
        ["aten.add.Tensor", "aten.relu.default", "aten.mul.Tensor"],
        ["aten.add.Tensor", "aten.mul.Tensor"],
    ]


def test_integers_do_not_pass_between_partitions() -> None:

    def reshape(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0] + y.shape[0]
        flat = torch.relu(torch.cat([x, y]).reshape(rows * 3))
        return flat.view(rows, -1) * 2

    program = check(
        Function(reshape),
        ((torch.randn(2, 3), torch.randn(3, 3)),),
        ((torch.randn(5, 3), torch.randn(4, 3)),),
        dynamic_shapes=(({0: Dim("a", max=8)}, {0: Dim("b", max=8)}),),
        partitioner=[OpsPartitioner(but=[aten.relu.default])],
    )
    calls = lowered_modules(program.exported_program().graph_module)
    assert len(calls) == 3
    for call, _ in calls:
        for value in [*call.meta["val"], *(arg.meta["val"] for arg in call.args[1:])]:
            assert isinstance(value, torch.Tensor)


def test_numbers_of_tensors_do_not_pass_between_partitions() -> None:
    def scale(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        number = (n + 1).item()
        return torch.relu(x * number) - number

    program = check(
        Function(scale),
        ((torch.randn(3), torch.tensor(2)),),
        ((torch.randn(3), torch.tensor(-5)),),
        partitioner=[OpsPartitioner(but=[aten.relu.default])],
    )
    calls = lowered_modules(program.exported_program().graph_module)
    assert len(calls) == 3
    for call, _ in calls:
        for value in [*call.meta["val"], *(arg.meta["val"] for arg in call.args[1:])]:
            assert isinstance(value, torch.Tensor)


def test_a_partition_gets_what_its_sizes_are_sums_of() -> None:
    program = check(
        Function(lambda x, y, z: torch.relu(torch.cat([x, y])) + z),
        ((torch.randn(2), torch.randn(3), torch.randn(1)),),
        ((torch.randn(5), torch.randn(4), torch.randn(1)),),
        dynamic_shapes=(({0: Dim("a", max=8)}, {0: Dim("b", max=8)}, None),),
        partitioner=[OpsPartitioner([aten.relu.default])],
    )
    relu = next(
        call
        for call, module in lowered_modules(program.exported_program().graph_module)
        if module.backend_id == "GraphBackend"
    )
    assert [str(arg) for arg in relu.args[1:3]] == ["inputs_0", "inputs_1"]
    assert len(relu.args) == 4


def test_plan_is_the_order_of_the_graph_where_nothing_forces_another() -> None:
    program = edge_program(lambda x: (x.sin() + x.cos(), x.tan()), torch.randn(3))
    for name in ("sin", "add"):
        next(n for n in program.graph.nodes if n.name == name).meta["delegation_tag"] = "a"
    steps = plan_partitions(program)
    names = [s.tag if isinstance(s, Partition) else s.name for s in steps]
    assert names == ["cos", "a", "tan"]


def test_lowering_is_deterministic() -> None:
    def bytes_of() -> bytes:
        torch.manual_seed(0)
        program = lower(Islands(), (torch.ones(2, 4),)).to_executorch()
        return program.buffer

    assert bytes_of() == bytes_of()


def test_identical_graphs() -> None:
    first = edge_program(lambda x: x + 1, torch.randn(3)).graph_module
    assert is_identical_graph(first, edge_program(lambda y: y + 1, torch.randn(3)).graph_module)
    assert not is_identical_graph(first, edge_program(lambda x: x + 2, torch.randn(3)).graph_module)
    assert not is_identical_graph(
        first, edge_program(lambda x: (x + 1) * 1, torch.randn(3)).graph_module
    )
