"""Upper bounds of symbolic sizes: what planned memory must hold."""

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from pteron.exir._program import input_specs_by_name

_LARGEST = 2**31 - 1
"""Sizes are 32-bit in the file."""


class ShapeBounds:
    """Bounds of the symbols of one program.

    Sizes that have no bound are collected in `unbounded` (as 0 where a number is asked for), so
    that all of them can be reported together.
    """

    def __init__(self, ranges: Mapping[sympy.Symbol, ValueRanges[Any]]) -> None:
        self._ranges = dict(ranges)
        self.unbounded: list[str] = []

    def upper(self, size: int | torch.SymInt, what: str) -> int:
        """The largest value of `size`; `what` says in words whose size it is."""
        if isinstance(size, int):
            return size
        bound = bound_sympy(size.node.expr, self._ranges).upper
        if bound.is_integer and bound.is_finite and bound <= _LARGEST:
            return int(bound)
        self.unbounded.append(f"{what} ({size})")
        return 0

    def sizes(self, tensor: torch.Tensor, what: str) -> list[int]:
        """The upper bound of each size of a tensor."""
        return [
            self.upper(size, f"dimension {dim} of {what}") for dim, size in enumerate(tensor.shape)
        ]

    def check(self, method: str) -> None:
        """Raises ValueError if a size without a bound was asked for."""
        if self.unbounded:
            unbounded = "\n".join(f"  {size}" for size in dict.fromkeys(self.unbounded))
            raise ValueError(
                f"sizes without an upper bound in method {method!r}:\n{unbounded}\n"
                f"Memory is planned before the program runs, so each size needs a largest value:"
                f" give it to torch.export, as in"
                f" dynamic_shapes={{'x': {{0: Dim('batch', max=64)}}}}"
                f" (a size that depends on data: torch._check(size <= 64) in the model)."
            )


def check_input_bounds(program: ExportedProgram, method: str) -> None:
    """Raises ValueError if an input of a program has a size without an upper bound."""
    bounds = ShapeBounds(program.range_constraints)
    for node, (name, spec) in zip(
        program.graph.find_nodes(op="placeholder"),
        input_specs_by_name(program).items(),
        strict=True,
    ):
        value = node.meta.get("val")
        if spec.kind is InputKind.USER_INPUT and isinstance(value, torch.Tensor):
            bounds.sizes(value, f"input {name}")
    bounds.check(method)
