"""What no partitioner took, compiled by this backend when a program is written."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from pteron.backends.cpu import CpuOptions, CpuPartitioner
from pteron.exir import (
    EdgeProgramManager,
    UnsupportedOperatorsError,
    to_edge,
    to_edge_transform_and_lower,
)
from pteron.exir.graph.lowered_backend_module import LoweredBackendModule, lowered_modules
from pteron.runtime import Runtime


class Everything(nn.Module):
    """Around what is left out: dynamic sizes and their sum, a number, a branch, state."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("total", torch.ones(3))

    def forward(self, x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> tuple[Any, ...]:
        joined = torch.relu(torch.cat([self.linear(x), y]))
        before = torch.relu(self.total - 1)
        self.total.add_(joined.sum(0))
        number = n.item()
        chosen = torch.cond(joined.sum() > 9, torch.sin, torch.cos, (joined * number,))
        return torch.relu(chosen) * number + before, joined.shape[0] * 2, self.total + 1


def everything() -> tuple[nn.Module, ExportedProgram]:
    torch.manual_seed(0)
    model = Everything().eval()
    example = (torch.randn(2, 3), torch.randn(3, 3), torch.tensor(2))
    shapes = ({0: Dim("rows", max=8)}, {0: Dim("more", max=8)}, None)
    return model, torch.export.export(copy.deepcopy(model), example, dynamic_shapes=shapes)


def modules(edge: EdgeProgramManager | Any) -> list[LoweredBackendModule]:
    return [module for _, module in lowered_modules(edge.exported_program().graph_module)]


def check(program: Any, model: nn.Module, path: Path) -> None:
    program.save(path)
    method = Runtime.get().load_program(path).load_method("forward")
    for rows, more, n in ((2, 3, 2), (8, 8, -3), (1, 4, 0)):
        inputs = (torch.randn(rows, 3), torch.randn(more, 3), torch.tensor(n))
        with torch.no_grad():
            expected = model(*inputs)
        torch.testing.assert_close(tuple(method.execute(inputs)), expected, rtol=1e-4, atol=1e-5)


def test_what_is_left_out_becomes_partitions(tmp_path: Path) -> None:
    model, exported = everything()
    options = CpuOptions(isa="x86-64-v2", num_threads=1)
    partitioner = CpuPartitioner(options, leave_out=["aten.relu", "cond"])
    with pytest.warns(UserWarning, match="leaves 4 operators out"):
        edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    assert edge.explain().methods[0].pending == {"aten.relu.default": 3, "cond": 1}
    program = edge.to_executorch()
    assert len(modules(program)) > len(modules(edge))
    # They are for the machine that the others are for.
    assert {CpuOptions.from_compile_specs(m.compile_specs) for m in modules(program)} == {options}
    check(program, model, tmp_path / "model.pte")


def test_equal_partitions_with_other_boundaries_are_in_one_file(tmp_path: Path) -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(2):
                x = torch.relu(torch.sin(2 * x + 1))
            return x

    x = torch.randn(2, 3)
    partitioner = CpuPartitioner(leave_out=["aten.relu"])
    with pytest.warns(UserWarning, match="leaves 2 operators out"):
        edge = to_edge_transform_and_lower(
            torch.export.export(Twice(), (x,)), partitioner=[partitioner]
        )
    edge.to_executorch().save(tmp_path / "model.pte")
    (found,) = (
        Runtime.get().load_program(tmp_path / "model.pte").load_method("forward").execute([x])
    )
    torch.testing.assert_close(found, Twice()(x))


def test_without_a_partitioner_everything_is_left(tmp_path: Path) -> None:
    model, exported = everything()
    program = to_edge(exported).to_executorch()
    assert [module.backend_id for module in modules(program)] == ["CpuBackend"]
    check(program, model, tmp_path / "model.pte")


def test_what_this_backend_refuses_is_listed_with_the_reason() -> None:
    @torch.library.custom_op("leftovers::mystery", mutates_args=())
    def mystery(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @mystery.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    class Mystery(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return mystery(x) + 1

    edge = to_edge(torch.export.export(Mystery(), (torch.randn(3),)))
    with (
        pytest.warns(UserWarning, match="CpuBackend leaves 1 operators out"),
        pytest.raises(UnsupportedOperatorsError) as raised,
    ):
        edge.to_executorch()
    message = str(raised.value)
    assert "leftovers.mystery.default  x1  %mystery in 'forward', test_leftovers.py:" in message
    assert "(leftovers.mystery.default has no C function" in message
    assert "aten.add" not in message
