"""Operators that nothing does are reported together, with what is known of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.export import ExportedProgram

from pteron.exir import UnsupportedOperatorsError, kernels, to_edge, to_edge_transform_and_lower
from pteron.exir.backend.partitioner import LEFT_OUT_REASON, PartitionResult
from pteron.exir.tests.backends import OpsPartitioner
from pteron.exir.tests.checks import load
from pteron.exir.tests.modules import Cache, Function

aten = torch.ops.aten


class Leaves(OpsPartitioner):
    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        for node in exported_program.graph.nodes:
            if node.target is aten.cumsum.default:
                node.meta[LEFT_OUT_REASON] = "there is no shim for it"
        return super().partition(exported_program)


def test_all_at_once(only_kernels: Callable[..., None]) -> None:
    only_kernels()
    function = Function(lambda x: x.cumsum(0).sin().cumsum(1).cos().cumsum(0).tan().cumsum(1))
    exported = torch.export.export(function, ((torch.randn(8, 8),),))
    with pytest.raises(UnsupportedOperatorsError) as error:
        to_edge_transform_and_lower(
            exported, partitioner=[Leaves(but=[aten.cumsum.default, aten.sin.default])]
        )
    message = str(error.value)
    assert "aten.cumsum.default  x4  %cumsum in 'forward', modules.py:" in message
    assert "(there is no shim for it); %cumsum_1 in" in message and "; 1 more" in message
    assert "aten.sin.default     x1  %sin in 'forward'" in message
    assert "try:  a partitioner whose backend takes them" in message and "rewrite" in message


def test_kernels_make_it_executable(only_kernels: Callable[..., None]) -> None:
    only_kernels("aten::sin.out", "aten::cumsum.out")
    function = Function(lambda x: x.cumsum(0).sin())
    exported = torch.export.export(function, ((torch.randn(8),),))
    edge = to_edge_transform_and_lower(exported, partitioner=[OpsPartitioner([])])
    program = edge.to_executorch()
    (method,) = program.executorch_program.methods
    assert [op.name for op in method.operators] == ["aten::cumsum", "aten::sin"]
    x = torch.randn(8)
    torch.testing.assert_close(load(program)["forward"](x), [x.cumsum(0).sin()])


def test_without_partitioner_it_is_checked_at_the_end(only_kernels: Callable[..., None]) -> None:
    only_kernels()
    exported = torch.export.export(Function(torch.sin), ((torch.randn(8),),))
    edge = to_edge_transform_and_lower(exported)
    edge.to_backend(OpsPartitioner()).to_executorch()
    with pytest.raises(UnsupportedOperatorsError, match=r"aten\.sin\.default"):
        edge.to_executorch()


def test_writing_state_back_takes_a_kernel(only_kernels: Callable[..., None]) -> None:
    only_kernels("aten::index_put.out")
    exported = torch.export.export(Cache(), (torch.ones(1, 4), torch.tensor([0])))
    with pytest.raises(UnsupportedOperatorsError, match=r"aten::copy_ \(writing state back\)"):
        to_edge_transform_and_lower(
            exported, partitioner=[OpsPartitioner(but=[aten.index_put.default])]
        )


def test_assertions_are_dropped(only_kernels: Callable[..., None]) -> None:
    only_kernels("aten::sin.out")

    def asserts(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > -1000).all(), "too small")
        return x.sin()

    exported = torch.export.export(Function(asserts), ((torch.randn(8),),))
    (method,) = to_edge(exported).to_executorch().executorch_program.methods
    assert [op.name for op in method.operators] == ["aten::sin"]


def test_kernel_names() -> None:
    assert kernels.kernel_name(aten.add.Tensor) == "aten::add.out"
    assert kernels.kernel_name(aten.add.Scalar) == "aten::add.Scalar_out"
    assert kernels.kernel_name(aten.view.default) == "aten::view_copy.out"
    assert kernels.kernel_name(aten.slice.Tensor) == "aten::slice_copy.Tensor_out"
    assert kernels.kernel_name(aten.topk.default) == "aten::topk.values"
    assert kernels.kernel_name(aten.full.default) == "aten::full.out"
    assert kernels.kernel_name(aten.split_with_sizes.default) == "aten::split_with_sizes_copy.out"
    assert kernels.kernel_name(aten.sym_size.int) == "aten::sym_size.int"
    assert kernels.kernel_name(print) is None
    assert kernels.has_kernel("aten::add.out") and not kernels.has_kernel("aten::add.Tensor")


def test_every_listed_kernel_can_be_named() -> None:
    """Each kernel is the out variant of something that a graph can call, or made by emission."""
    reachable = {kernels.COPY, *kernels._NUMBER_KERNELS.values()}
    for name in dir(aten):
        packet = getattr(aten, name)
        for overload in getattr(packet, "overloads", list)():
            reachable.add(kernels.kernel_name(getattr(packet, overload)))
    made_by_other_writers = ("executorch_prim::et_", "dim_order_ops::", "et_copy::")
    unreachable = {
        name
        for name in kernels.kernel_names() - reachable
        if not name.startswith(made_by_other_writers)
    }
    assert not {name for name in unreachable if not name.endswith("_")}
