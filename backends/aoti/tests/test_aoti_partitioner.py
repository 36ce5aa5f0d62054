"""Partitions: one if possible, convex ones otherwise, and whose each constant is."""

import copy
import operator
import warnings
from typing import final

import pytest
import torch

from pteron.backends.aoti.aoti_backend import AotiBackend, BuildTarget
from pteron.backends.aoti.aoti_options import AotiOptions
from pteron.backends.aoti.aoti_partitioner import AotiPartitioner, LeftOutWarning
from pteron.backends.aoti.inductor import Target
from pteron.backends.aoti.ops.attention.attention import WHOLE
from pteron.backends.aoti.payload import SharedObjectInfo
from pteron.backends.aoti.toolchain import Machine
from pteron.exir.backend.backend_api import to_backend
from pteron.exir.backend.backend_details import BackendDetails, PreprocessResult
from pteron.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from pteron.exir.backend.utils import tag_constant_data
from pteron.exir.operators.recurrent_layers import RECURRENT_LAYERS

aten = torch.ops.aten


@final
class PartitionerTestBackend(AotiBackend, BackendDetails):
    """An AOTI backend that compiles nothing."""

    @classmethod
    def get_device_name(cls) -> str:
        return "cpu"

    @classmethod
    def get_options(cls, compile_specs) -> AotiOptions:
        return AotiOptions.from_compile_specs(compile_specs)

    @classmethod
    def get_build_target(cls, options) -> BuildTarget:
        return BuildTarget(Target("cpu"), Machine(()), SharedObjectInfo("cpu"))

    @classmethod
    def compile_partition(cls, edge_program, options) -> PreprocessResult:
        return PreprocessResult(b"nothing")


@final
class EarlierTestBackend(BackendDetails):
    """A partitioner that runs earlier."""

    @classmethod
    def preprocess(cls, edge_program, compile_specs) -> PreprocessResult:
        return PreprocessResult(b"nothing")


class EarlierPartitioner(Partitioner):
    """Takes the calls of some operators, each on its own, with or without their constants."""

    def __init__(self, *targets, constants: bool = True) -> None:
        self.targets = targets
        self.constants = constants

    def partition(self, exported_program):
        tags: dict[str, DelegationSpec] = {}
        for node in exported_program.graph.nodes:
            if node.target in self.targets:
                tag = f"earlier_{len(tags)}"
                node.meta["delegation_tag"] = tag
                tags[tag] = DelegationSpec("EarlierTestBackend", [])
        if self.constants:
            tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)


def exported(module: torch.nn.Module, *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(module.eval(), inputs).run_decompositions()


def partition(program: torch.export.ExportedProgram, **options):
    """Name to tag, of everything tagged, and the tags."""
    partitioner = AotiPartitioner(PartitionerTestBackend.__name__, [], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        result = partitioner.partition(program)
    tagged = {
        node.name: node.meta["delegation_tag"]
        for node in program.graph.nodes
        if "delegation_tag" in node.meta
    }
    return tagged, list(result.partition_tags)


class TwoTowers(torch.nn.Module):
    """Two parts that have nothing to do with each other, and a parameter that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.left = torch.nn.Linear(4, 4)
        self.right = torch.nn.Linear(4, 4)
        self.idle = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        return self.left(x).relu(), self.right(y).sigmoid()


def test_everything_is_one_partition_where_possible() -> None:
    program = exported(TwoTowers(), torch.randn(2, 4), torch.randn(3, 4))
    tagged, tags = partition(program)
    calls = [node.name for node in program.graph.nodes if node.op == "call_function"]
    assert tags == ["cpu_0"]
    assert set(calls) <= tagged.keys() and set(tagged.values()) == {"cpu_0"}
    assert {"p_left_weight", "p_right_bias", "p_idle"} <= tagged.keys()
    assert not {"x", "y"} & tagged.keys()


class Island(torch.nn.Module):
    """before -> poisson -> after, and a way around it: one set would not be convex."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = torch.nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = torch.softmax(x * self.shared, -1)
        picked = torch.poisson(before)
        return (picked + before) * self.shared


def test_a_foreign_node_makes_islands_that_are_convex() -> None:
    program = exported(Island(), torch.randn(2, 4))
    tagged, tags = partition(program)
    assert tags == ["cpu_0", "cpu_1"]
    assert tagged["_softmax"] == "cpu_0" and tagged["add"] == "cpu_1"
    assert "poisson" not in tagged
    lowered = to_backend(
        exported(Island(), torch.randn(2, 4)), AotiPartitioner("PartitionerTestBackend", [])
    )
    assert sum("lowered_module" in n.name for n in lowered.graph.nodes if n.op == "get_attr") == 2


def test_tags_and_order_do_not_change_from_run_to_run() -> None:
    program = exported(Island(), torch.randn(2, 4))
    assert partition(copy.deepcopy(program)) == partition(copy.deepcopy(program))


def test_what_is_left_out_is_named_with_its_source_line() -> None:
    program = exported(Island(), torch.randn(2, 4))
    with pytest.warns(LeftOutWarning) as caught:
        AotiPartitioner("PartitionerTestBackend", []).partition(program)
    (text,) = [str(item.message) for item in caught if item.category is LeftOutWarning]
    assert "PartitionerTestBackend leaves 1 operators out" in text
    assert "poisson (" in text and "test_aoti_partitioner.py:" in text
    assert "aten.poisson.default has no C function" in text
    (node,) = [n for n in program.graph.nodes if "left_out_reason" in n.meta]
    assert node.name == "poisson"


def test_leave_out_keeps_operators_for_others() -> None:
    tagged, tags = partition(
        exported(TwoTowers(), torch.randn(2, 4), torch.randn(3, 4)), leave_out=["aten.addmm"]
    )
    assert {"relu", "sigmoid"} <= tagged.keys()
    assert not {"addmm", "addmm_1"} & tagged.keys()


class Loops(torch.nn.Module):
    """cond in a branch of cond, map and while_loop, each with graphs of their own."""

    def forward(self, x: torch.Tensor):
        def outer(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.max() > 1, lambda x: x.sin(), lambda x: x.cos(), (x,))

        y = torch.cond(x.sum() > 0, outer, lambda x: x.neg(), (x,))
        (count, z) = torch.while_loop(
            lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), y)
        )
        return z + count


def test_branches_go_with_their_operator() -> None:
    program = exported(Loops(), torch.randn(3))
    tagged, tags = partition(program)
    assert tags == ["cpu_0"]
    attributes = [node for node in program.graph.nodes if node.op == "get_attr"]
    assert len(attributes) == 4
    assert all(tagged[node.name] == "cpu_0" for node in attributes)


def test_branches_of_a_left_out_operator_stay_with_it() -> None:
    tagged, _ = partition(exported(Loops(), torch.randn(3)), leave_out=["cond"])
    assert not any("true_graph" in name or "false_graph" in name for name in tagged)


class State(torch.nn.Module):
    """A buffer that is written, one that is read, and a lifted constant."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x)
        return self.count * self.scale + torch.tensor([1.0, 2.0, 3.0])


def test_buffers_and_lifted_constants_are_tagged() -> None:
    tagged, tags = partition(exported(State(), torch.randn(3)))
    assert tags == ["cpu_0"]
    assert {"b_count", "b_scale"} <= tagged.keys()
    assert any(name.startswith("c_") for name in tagged)


class Stacked(torch.nn.Module):
    """Two products with one weight, its bias elsewhere, a weight that only a product reads."""

    def __init__(self) -> None:
        super().__init__()
        self.both = torch.nn.Parameter(torch.randn(4, 4))
        self.theirs = torch.nn.Parameter(torch.randn(4, 4))
        self.ours = torch.nn.Parameter(torch.randn(4))
        self.idle = torch.nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.mm(x, self.theirs).relu() + self.ours
        return torch.mm(y, self.both) * self.both


def test_after_another_delegate_only_the_rest_is_taken() -> None:
    program = to_backend(
        exported(Stacked(), torch.randn(4, 4)), EarlierPartitioner(aten.mm.default)
    )
    tagged, tags = partition(program)
    for node in program.graph.nodes:
        is_delegate = "lowered_module" in node.name or "executorch_call" in str(node.target)
        is_item = node.target is operator.getitem
        assert not ((is_delegate or is_item) and node.name in tagged), node.name
    assert tags == ["cpu_0", "cpu_1"]
    names = set(tagged)
    assert {"p_both", "p_ours", "p_idle"} <= names
    assert "p_theirs" not in names
    to_backend(program, AotiPartitioner("PartitionerTestBackend", []))


def test_constants_of_an_earlier_delegate_are_not_taken() -> None:
    """One that gets its weights as arguments keeps them."""
    earlier = EarlierPartitioner(aten.mm.default, constants=False)
    program = to_backend(exported(Stacked(), torch.randn(4, 4)), earlier)
    tagged, _ = partition(program)
    assert "p_theirs" in program.graph_signature.inputs_to_parameters
    assert "p_theirs" not in tagged
    assert {"p_both", "p_ours", "p_idle"} <= tagged.keys()
    lowered = to_backend(program, AotiPartitioner("PartitionerTestBackend", []))
    assert list(lowered.graph_signature.inputs_to_parameters.values()) == ["both", "theirs"]


def test_nothing_left_makes_no_partition() -> None:
    program = exported(torch.nn.ReLU(), torch.randn(3))
    assert partition(program, leave_out=["aten.relu"]) == ({}, [])


def test_sizes_alone_make_no_partition() -> None:
    class Size(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return x.shape[0] * 2, torch.poisson(x)

    size = torch.export.Dim("n", min=2, max=9)
    program = torch.export.export(Size(), (torch.rand(3, 4),), dynamic_shapes=({0: size},))
    _, tags = partition(program.run_decompositions())
    assert tags == []


def test_operators_to_keep_whole_are_passed_on() -> None:
    partitioner = AotiPartitioner(
        "PartitionerTestBackend", [], ops_to_not_decompose=[aten.linear.default]
    )
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.randn(1, 2),))
    ops, condition = partitioner.ops_to_not_decompose(program)
    assert set(ops) == {*WHOLE, *RECURRENT_LAYERS, aten.linear.default}
    assert condition is None


def test_a_backend_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="EarlierTestBackend does not derive from AotiBackend"):
        AotiPartitioner("EarlierTestBackend", [])
