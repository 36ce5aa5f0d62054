"""What a partition takes and gives: types, ranks and, for each dimension, its sizes.

Dimensions that share a symbol must agree at run time, across all inputs and outputs, so a symbol
has one number in the whole contract. A size that is `scale * symbol + offset` says so; any other
expression is free within its bounds.
"""

import dataclasses
from collections.abc import Mapping, Set
from typing import Any, TypeAlias

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

#: Stands for "no upper bound".
UNBOUNDED = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Dim:
    """One dimension: `min <= size <= max`, and `size == scale * symbol + offset` if symbol >= 0."""

    min: int
    max: int
    symbol: int = -1
    scale: int = 1
    offset: int = 0


@dataclasses.dataclass(frozen=True)
class TensorContract:
    """One input or output.

    Attributes:
        dtype: element type.
        dims: one entry a dimension; none for a scalar, which is also what an integer output is.
        strides: in elements, of the largest shape; they give the order of the dimensions.
        mutated: the code writes this input in place.
    """

    dtype: torch.dtype
    dims: tuple[Dim, ...]
    strides: tuple[int, ...]
    mutated: bool = False


Contract: TypeAlias = tuple[tuple[TensorContract, ...], tuple[TensorContract, ...]]
"""Of the inputs, of the outputs."""


def contract_of(program: ExportedProgram) -> Contract:
    """Contracts of the inputs (user inputs, in order) and outputs (user outputs, in order)."""
    signature = program.graph_signature
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    ranges = dict(program.range_constraints)
    symbols: dict[sympy.Symbol, int] = {}
    mutated = set(signature.user_inputs_to_mutate.values())

    def describe(value: object, is_mutated: bool = False) -> TensorContract:
        if isinstance(value, torch.Tensor):
            dims = tuple(_dim(size, ranges, symbols) for size in value.shape)
            strides = tuple(_largest(stride, ranges) for stride in value.stride())
            return TensorContract(value.dtype, dims, strides, is_mutated)
        # AOTInductor hands integers over as tensors without dimensions.
        return TensorContract(torch.int64, (), ())

    inputs = tuple(
        describe(values[spec.arg.name], spec.arg.name in mutated)
        for spec in signature.input_specs
        if spec.kind == InputKind.USER_INPUT
    )
    outputs = tuple(
        describe(values.get(getattr(spec.arg, "name", "")))
        for spec in signature.output_specs
        if spec.kind == OutputKind.USER_OUTPUT
    )
    return inputs, outputs


def _expression(size: int | torch.SymInt) -> sympy.Expr:
    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def _bounds(
    expression: sympy.Expr, ranges: Mapping[sympy.Symbol, ValueRanges[Any]]
) -> tuple[int, int]:
    found = bound_sympy(expression, dict(ranges))
    # An unbounded side is one of several infinities; numbers are what is left.
    lower = int(found.lower) if isinstance(found.lower, sympy.Integer) else 0
    upper = int(found.upper) if isinstance(found.upper, sympy.Integer) else UNBOUNDED
    return max(lower, 0), min(upper, UNBOUNDED)


def _dim(
    size: int | torch.SymInt,
    ranges: Mapping[sympy.Symbol, ValueRanges[Any]],
    symbols: dict[sympy.Symbol, int],
) -> Dim:
    expression = _expression(size)
    if expression.is_number:
        return Dim(int(expression), int(expression))
    lower, upper = _bounds(expression, ranges)
    free: Set[sympy.Symbol] = expression.free_symbols
    if len(free) == 1:
        (symbol,) = free
        polynomial = sympy.Poly(expression, symbol) if expression.is_polynomial(symbol) else None
        if polynomial is not None and polynomial.degree() == 1:
            scale, offset = polynomial.all_coeffs()
            if scale.is_integer and offset.is_integer:
                number = symbols.setdefault(symbol, len(symbols))
                return Dim(lower, upper, number, int(scale), int(offset))
    return Dim(lower, upper)


def _largest(stride: int | torch.SymInt, ranges: Mapping[sympy.Symbol, ValueRanges[Any]]) -> int:
    expression = _expression(stride)
    return int(expression) if expression.is_number else _bounds(expression, ranges)[1]
