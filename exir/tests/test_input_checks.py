"""Checks of integers and sizes that export's guards exclude."""

import io
from typing import Any

import pytest
import sympy
import torch
from torch.export import Dim, ExportedProgram

from pteron.exir.graph.export_guards import is_relation
from pteron.exir.program import to_edge


@pytest.mark.parametrize(
    "guard, counts",
    [
        ("Eq(a*b, c)", True),
        ("Eq(Mod(a, 2), 0)", True),
        ("Ne(Mod(a, 2), 0)", True),
        ("Ne(a, b)", True),
        ("a >= b", True),
        ("a - b >= 1", True),
        ("Ne(a*b, 1)", False),
        ("Ne(a//4, 1)", False),
        ("Ne(Mod(8, 2*a), 0)", False),
        ("a*b >= 2", False),
        ("a >= 3", False),
        ("Ne(a, 9)", True),
        ("Ne(4*a, 4)", False),
        ("a**2 < 50", True),
        ("a//2 < 2", True),
        ("(a > 4) | (b < 3)", True),
        ("Ne(a, 1) | (b < 3)", False),
    ],
)
def test_guards_that_count(guard: str, counts: bool) -> None:
    assert is_relation(sympy.sympify(guard)) == counts


class Odd(torch.nn.Module):
    def forward(self, pair: tuple[torch.Tensor, dict[str, torch.Tensor]]) -> torch.Tensor:
        return pair[0][::2] * pair[1]["a Y"]


class Crops(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[0] // 8 == 4 and x.shape[1] // 8 == 6 else -x


class Bits(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] & 1 == 0 else x - 1


def checks_of(program: ExportedProgram) -> list[str]:
    """What messages say of the sizes that a program takes."""
    nodes = to_edge(program).exported_program().graph.nodes
    checks: list[Any] = [n for n in nodes if n.target is torch.ops.aten._assert_scalar.default]
    return [check.args[1].split("satisfy ")[1].split(", on")[0] for check in checks]


def test_guards_of_programs_of_strict_mode() -> None:
    size = {0: Dim.AUTO(max=64), 1: Dim.AUTO(max=64)}
    inputs = (torch.randn(33, 49),)
    program = torch.export.export(Crops(), inputs, dynamic_shapes=(size,), strict=True)
    assert checks_of(program) == ["(x.size(0) // 8) == 4", "(x.size(1) // 8) == 6"]


def test_guards_of_nested_inputs_and_of_saved_programs() -> None:
    args = ((torch.randn(9), {"a Y": torch.randn(5)}),)
    size = {0: Dim.AUTO(max=64)}
    program = torch.export.export(Odd(), args, dynamic_shapes=((size, {"a Y": size}),))
    saved = io.BytesIO()
    torch.export.save(program, saved)
    saved.seek(0)
    for one in (program, torch.export.load(saved), program.run_decompositions()):
        assert checks_of(one) == ["((pair_0.size(0) + 1) // 2) == pair_1_a_y.size(0)"]


def test_a_guard_that_cannot_be_checked_is_refused() -> None:
    shapes = ({0: Dim.AUTO(max=64)},)
    program = torch.export.export(Bits(), (torch.randn(6),), dynamic_shapes=shapes)
    with pytest.raises(ValueError, match=r"relies on \(x\.size\(\)\[0\] & 1\) == 0 of the sizes"):
        to_edge(program)
