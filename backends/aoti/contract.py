"""Contracts of a partition's inputs and outputs: dtypes, ranks and sizes.

Dimensions that share a symbol must agree at run time, across all inputs and outputs, so a symbol
has one index in the whole contract. An affine size is `scale * symbol + offset`. An input size that
is another expression gets its own symbol and a condition that relates it to others. An output size
that is another expression may be anything within its bounds.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._sympy.value_ranges import bound_sympy

from pteron.exir.graph.shape_bounds import Ranges, affine, ranges_of

#: Means "no upper bound".
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
        dtype: dtype.
        dims: one entry per dimension; none for a scalar or an integer output.
        strides: in elements, of the largest shape; they determine the dim order.
        mutated: the code writes this input in place.
    """

    dtype: torch.dtype
    dims: tuple[Dim, ...]
    strides: tuple[int, ...]
    mutated: bool = False


@dataclasses.dataclass(frozen=True)
class Condition:
    """A relation between the sizes of one call: `left relation right`.

    Attributes:
        relation: one of ==, !=, <, <=, > and >=.
        left, right: postfix code of each side: see `metadata.fbs`.
        text: the relation with input names, for messages.
    """

    relation: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    text: str


Contract: TypeAlias = tuple[
    tuple[TensorContract, ...], tuple[TensorContract, ...], tuple[Condition, ...]
]
"""Contracts of inputs and outputs, and conditions on the inputs."""


def contract_of(program: ExportedProgram) -> Contract:
    """Contracts of the inputs (user inputs, in order) and outputs (user outputs, in order)."""
    return _Contracts(program).all()


class _Contracts:
    """Assigns indices to the symbols of a program while describing its tensors."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._ranges = {s: r for s, r in ranges_of(program).items() if s.is_Symbol}
        self._indices: dict[sympy.Expr, int] = {}
        # By symbol: its name for the caller.
        self._words: dict[sympy.Expr, sympy.Expr] = {}

    def all(self) -> Contract:
        signature = self._program.graph_signature
        values = {node.name: node.meta.get("val") for node in self._program.graph.nodes}
        mutated = set(signature.user_inputs_to_mutate.values())
        inputs = tuple(
            self._describe(values[spec.arg.name], spec.arg.name, spec.arg.name in mutated)
            for spec in signature.input_specs
            if spec.kind == InputKind.USER_INPUT
        )
        conditions = self._conditions()
        outputs = tuple(
            self._describe(values.get(getattr(spec.arg, "name", "")))
            for spec in signature.output_specs
            if spec.kind == OutputKind.USER_OUTPUT
        )
        return inputs, outputs, conditions

    def _describe(self, value: object, name: str = "", mutated: bool = False) -> TensorContract:
        """`name` is an input's name."""
        if isinstance(value, torch.Tensor):
            dims = tuple(
                self._dim(_expression(size), f"{name}.size({index})" if name else "")
                for index, size in enumerate(value.shape)
            )
            strides = tuple(self._largest(_expression(stride)) for stride in value.stride())
            return TensorContract(value.dtype, dims, strides, mutated)
        if name and isinstance(value, torch.SymInt):
            # See _numbers_as_sizes of inductor/generate.py.
            return TensorContract(
                torch.uint8, (self._dim(_expression(value), name), Dim(0, 0)), (1, 1)
            )
        # AOTInductor returns integers as 0-d tensors.
        return TensorContract(torch.int64, (), ())

    def _dim(self, expression: sympy.Expr, words: str) -> Dim:
        if expression.is_number:
            return Dim(int(expression), int(expression))
        lower, upper = _bounds(expression, self._ranges)
        symbol, scale, offset = affine(expression) or (expression, 1, 0)
        if not symbol.is_Symbol and not words:
            return Dim(lower, upper)
        if words:
            self._words.setdefault(symbol, (sympy.Symbol(words) - offset) / scale)
        index = self._indices.setdefault(symbol, len(self._indices))
        return Dim(lower, upper, index, scale, offset)

    def _largest(self, stride: sympy.Expr) -> int:
        return int(stride) if stride.is_number else _bounds(stride, self._ranges)[1]

    def _conditions(self) -> tuple[Condition, ...]:
        """Conditions on the inputs' symbols; called after exactly these have indices."""
        own = {e: sympy.Symbol(f"size{n}") for e, n in self._indices.items() if not e.is_Symbol}
        relations = [sympy.Eq(name, e, evaluate=False) for e, name in own.items()]
        indices = {own.get(e, e): n for e, n in self._indices.items()}
        words = {own.get(e, e): text for e, text in self._words.items()}
        fixed = {s: r.lower for s, r in self._ranges.items() if r.is_singleton()}
        found = []
        for relation in relations:
            relation = relation.subs(fixed) if relation.free_symbols & fixed.keys() else relation
            if not isinstance(relation, sympy.core.relational.Relational):
                continue
            left, right = (_code(side, indices) for side in (relation.lhs, relation.rhs))
            if left and right:
                sides = (str(side.xreplace(words)) for side in (relation.lhs, relation.rhs))
                found.append(
                    Condition(relation.rel_op, left, right, f" {relation.rel_op} ".join(sides))
                )
        return tuple(dict.fromkeys(found))


_CONSTANT, _SYMBOL, _ADD, _MULTIPLY, _DIVIDE, _MODULO, _MAX, _MIN = range(8)
_OPERATIONS = {
    "Add": _ADD,
    "Mul": _MULTIPLY,
    "FloorDiv": _DIVIDE,
    "CleanDiv": _DIVIDE,
    "Mod": _MODULO,
    "PythonMod": _MODULO,
    "Max": _MAX,
    "Min": _MIN,
}
"""The code in `metadata.fbs` of an operation of sympy or torch."""


def _code(expression: sympy.Expr, indices: dict[sympy.Expr, int]) -> tuple[int, ...]:
    """Postfix code of an expression; empty if it has other symbols or operations."""
    if expression.is_Integer and abs(int(expression)) <= UNBOUNDED:
        return _CONSTANT, int(expression)
    if expression.is_Symbol:
        return (_SYMBOL, indices[expression]) if expression in indices else ()
    arguments: Sequence[Any] = expression.args
    operation = _OPERATIONS.get(type(expression).__name__)
    if expression.is_Pow and expression.exp.is_Integer and 2 <= int(expression.exp) <= 8:
        arguments, operation = [expression.base] * int(expression.exp), _MULTIPLY
    codes = [_code(argument, indices) for argument in arguments]
    if operation is None or not all(codes):
        return ()
    return functools.reduce(lambda left, right: (*left, *right, operation), codes)


def _expression(size: int | torch.SymInt) -> sympy.Expr:
    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def _bounds(expression: sympy.Expr, ranges: Ranges) -> tuple[int, int]:
    found = bound_sympy(expression, dict(ranges))
    # An unbounded side is one of several infinity objects; integers are finite.
    lower = int(found.lower) if isinstance(found.lower, sympy.Integer) else 0
    upper = int(found.upper) if isinstance(found.upper, sympy.Integer) else UNBOUNDED
    return max(lower, 0), min(upper, UNBOUNDED)
