"""What the BLAS partitioner takes: graphs before and after. Nothing is compiled or run."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from pteron.backends.example.blas import BlasOptions, BlasPartitioner
from pteron.backends.example.blas.tests.graph_text import graph_text
from pteron.exir import to_edge, to_edge_transform_and_lower
from pteron.exir.backend.compile_spec_schema import CompileSpec
from pteron.exir.backend.partitioner import DELEGATION_TAG, LEFT_OUT_REASON
from pteron.exir.config import EdgeCompileConfig


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self._function(*args)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4)
        self.head = nn.Linear(4, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.down(torch.relu(self.up(x))) + x)


def edge(module: nn.Module, *inputs: torch.Tensor, **options: Any) -> ExportedProgram:
    """The program that a partitioner gets, with linear whole."""
    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.linear.default])
    exported = torch.export.export(module.eval(), inputs, **options)
    return to_edge(exported, compile_config=config).exported_program()


def tagged(program: ExportedProgram) -> ExportedProgram:
    return BlasPartitioner().partition(program).tagged_exported_program


def lines(text: str) -> str:
    return textwrap.dedent(text).strip()


def test_example() -> None:
    program = edge(Block(), torch.randn(2, 4))
    before = """
        linear = linear.default(x, p_up_weight, p_up_bias)
        relu = relu.default(linear)
        linear_1 = linear.default(relu, p_down_weight, p_down_bias)
        add = add.Tensor(linear_1, x)
        linear_2 = linear.default(add, p_head_weight)
    """
    assert graph_text(program) == lines(before)
    lowered = to_edge_transform_and_lower(program, partitioner=[BlasPartitioner()])
    after = """
        executorch_call_delegate = BlasBackend{linear.default}(x)
        getitem = getitem(executorch_call_delegate, 0)
        relu = relu.default(getitem)
        executorch_call_delegate_1 = BlasBackend{linear.default}(relu)
        getitem_1 = getitem(executorch_call_delegate_1, 0)
        add = add.Tensor(getitem_1, x)
        executorch_call_delegate_2 = BlasBackend{linear.default}(add)
        getitem_2 = getitem(executorch_call_delegate_2, 0)
    """
    assert graph_text(lowered.exported_program()) == lines(after)
    assert list(lowered.exported_program().state_dict) == []


def test_products_that_feed_each_other_are_one_partition() -> None:
    def chain(a: torch.Tensor, b: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return torch.addmm(row, torch.mm(a, b), b)

    program = tagged(edge(Function(chain), torch.randn(2, 3), torch.randn(3, 3), torch.randn(3)))
    after = """
        mm = mm.default(args_0, args_1)  # blas_0
        addmm = addmm.default(args_2, mm, args_1)  # blas_0
    """
    assert graph_text(program) == lines(after)


def test_partitions_are_convex() -> None:
    def detour(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        first = torch.bmm(a, b)
        return torch.bmm(first, torch.sin(first))

    program = tagged(edge(Function(detour), torch.randn(2, 3, 3), torch.randn(2, 3, 3)))
    after = """
        bmm = bmm.default(args_0, args_1)  # blas_0
        sin = sin.default(bmm)
        bmm_1 = bmm.default(bmm, sin)  # blas_1
    """
    assert graph_text(program) == lines(after)


def test_takes_matmul_of_any_rank_and_dynamic_sizes() -> None:
    program = tagged(
        edge(
            Function(torch.matmul),
            torch.randn(2, 3, 4),
            torch.randn(4, 5),
            dynamic_shapes=(({0: Dim("batch", max=8)}, None),),
        )
    )
    assert [n.target for n in program.graph.nodes if DELEGATION_TAG in n.meta] == [
        torch.ops.aten.mm.default
    ]


@pytest.mark.parametrize(
    ("function", "inputs", "why"),
    [
        pytest.param(
            torch.mm,
            (torch.ones(2, 2, dtype=torch.float64),) * 2,
            "torch.float64; BlasBackend multiplies torch.float32",
            id="double",
        ),
        pytest.param(
            nn.functional.linear,
            (torch.ones(2, 2).half(), torch.ones(2, 2).half()),
            "torch.float16; BlasBackend multiplies torch.float32",  # now a permute and an mm
            id="half_linear",
        ),
        pytest.param(
            torch.addmm,
            (torch.ones(2, 1), torch.ones(2, 2), torch.ones(2, 2)),
            "addmm adds a tensor of shape (2, 1); BlasBackend adds a row or a matrix",
            id="column_bias",
        ),
        pytest.param(torch.add, (torch.ones(2), torch.ones(2)), "None", id="no_product"),
    ],
)
def test_leaves_others(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], why: str
) -> None:
    program = torch.export.export(Function(function), inputs)
    lowered = to_edge(program).exported_program()
    result = BlasPartitioner().partition(lowered)
    assert result.partition_tags == {}
    *_, last = (n for n in lowered.graph.nodes if n.op == "call_function")
    assert str(last.meta.get(LEFT_OUT_REASON)).endswith(why)


def test_asks_for_whole_linears_that_it_can_run() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.narrow = nn.Linear(3, 3)
            self.wide = nn.Linear(3, 3).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.wide(self.narrow(x).double())

    exported = torch.export.export(Mixed(), (torch.randn(2, 3),))
    ops, wants = BlasPartitioner().ops_to_not_decompose(exported)
    assert ops == [torch.ops.aten.linear.default]
    linears = [n for n in exported.graph.nodes if n.target is torch.ops.aten.linear.default]
    assert [wants(node) for node in linears] == [True, False]


class Constants(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.both = nn.Parameter(torch.randn(3))
        self.unused = nn.Parameter(torch.randn(3))
        self.register_buffer("state", torch.randn(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.addmm(self.both, x, self.weight) * self.both
        self.state.copy_(torch.mm(y, self.state))
        return y


def test_owns_constants_that_only_products_use() -> None:
    program = tagged(edge(Constants(), torch.randn(3, 3)))
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    assert {node.name: node.meta.get(DELEGATION_TAG) for node in placeholders} == {
        "p_weight": "blas_0",
        "p_both": "blas_0",  # one that others use too goes both ways
        "p_unused": None,
        "b_state": "blas_1",  # and stays the program's all the same
        "x": None,
    }


def test_takes_nothing_from_another_delegate() -> None:
    once = to_edge_transform_and_lower(
        edge(Block(), torch.randn(2, 4)), partitioner=[BlasPartitioner()]
    )
    again = BlasPartitioner().partition(once.exported_program())
    assert again.partition_tags == {}


def test_options_make_the_round_trip() -> None:
    options = BlasOptions(external_tag="weights")
    specs = [*options.to_compile_specs(), CompileSpec("method_name", b"forward")]
    assert BlasOptions.from_compile_specs(specs) == options
    with pytest.raises(ValueError, match="no option 'fast'; known: external_tag"):
        BlasOptions.from_compile_specs([CompileSpec("fast", b"1")])
    with pytest.raises(ValueError, match="a file name without suffix"):
        BlasOptions(external_tag="a/b")
