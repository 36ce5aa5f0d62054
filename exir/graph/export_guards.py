"""Export's guards: relations between sizes, such as Eq(s0*s1, s2)."""

import ast
import operator
import re
import weakref
from collections.abc import Mapping
from typing import Any

import sympy
import torch
from sympy.logic.boolalg import BooleanFunction
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._sympy.functions import (
    CeilToInt,
    FloatTrueDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Mod,
    RoundToInt,
    ToFloat,
    TruncToInt,
)

_noted: weakref.WeakKeyDictionary[Any, tuple[sympy.Basic, ...]] = weakref.WeakKeyDictionary()


def guards_of(program: ExportedProgram) -> tuple[sympy.Basic, ...]:
    """The guards of a program and of programs derived from it, which share symbols.

    Recorded at the first call, which must be with the exported program: passes and compilers add
    guards of their own, which it is not held to.
    """
    sizes: dict[str, tuple[Any, ...]] = {}
    environment = None
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor | torch.SymInt | int | float):
            continue
        shape: tuple[Any, ...] = tuple(value.shape) if isinstance(value, torch.Tensor) else (value,)
        symbolic = [size.node for size in shape if isinstance(size, torch.SymInt)]
        environment = symbolic[0].shape_env if symbolic else environment
        sizes[node.name] = tuple(
            size.node.expr if isinstance(size, torch.SymInt) else sympy.sympify(size)
            for size in shape
        )
    if environment is None:
        return ()
    specs = program.graph_signature.input_specs
    inputs = [spec.arg for spec in specs if spec.kind is InputKind.USER_INPUT]
    # With strict=True, torch names them by their place.
    flat = {f"flat_args_{i}": getattr(arg, "name", "") for i, arg in enumerate(inputs)}
    sizes |= {place: sizes[name] for place, name in flat.items() if name in sizes}
    if environment not in _noted:
        # As text, since saved programs have no other form.
        texts = getattr(program, "_guards_code", None) or ()
        guards = [_parse(text, sizes) for text in texts]
        if not guards:
            guards = [environment.replace(guard.expr) for guard in environment.guards]
        _noted[environment] = tuple(part for guard in guards for part in sympy.And.make_args(guard))
    return _noted[environment]


def is_relation(guard: sympy.Basic) -> bool:
    """Whether a guard is more than a range and more than "not 0 or 1", which reflects tracing:
    declared dimensions may have these sizes."""
    if isinstance(guard, BooleanFunction):
        relations = guard.atoms(sympy.core.relational.Relational)
        return not any(map(_is_of_tracing, relations))
    if not isinstance(guard, sympy.core.relational.Relational):
        return False
    parts = list(sympy.preorder_traversal(guard))
    if isinstance(guard, sympy.Eq) or any(_is_remainder(part) for part in parts):
        return True
    is_range = not isinstance(guard, sympy.Ne) and guard.lhs.is_Symbol and guard.rhs.is_number
    is_difference = len(guard.free_symbols) > 1 and any(p.is_number and p < 0 for p in parts)
    return not is_range and (is_difference or not _is_of_tracing(guard))


def _is_of_tracing(relation: Any) -> bool:
    """Whether it says no more than that something is not 0 or 1."""
    relation = relation.reversed if relation.lhs.is_number else relation
    factor = relation.lhs.as_coeff_Mul()[0]
    number = relation.rhs / factor if factor > 0 else relation.rhs
    least = {sympy.Ne: 1, sympy.StrictGreaterThan: 1, sympy.GreaterThan: 2}.get(relation.func, -1)
    return number.is_number and 0 <= number <= least


def _is_remainder(part: sympy.Basic) -> bool:
    """Whether it is a size modulo a constant, rather than a constant modulo a size."""
    return "Mod" in type(part).__name__ and bool(part.args[1].is_number)


_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: FloorDiv,
    ast.Mod: Mod,
    ast.Div: lambda a, b: (IntTrueDiv if a.is_integer and b.is_integer else FloatTrueDiv)(a, b),
    ast.Pow: operator.pow,
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
    ast.And: sympy.And,
    ast.Or: sympy.Or,
}
_FUNCTIONS: dict[str, Any] = {
    "abs": sympy.Abs,
    "max": sympy.Max,
    "min": sympy.Min,
    "round": RoundToInt,
    "math.ceil": CeilToInt,
    "math.floor": FloorToInt,
    "math.trunc": TruncToInt,
    "torch.sym_float": ToFloat,
}


def _parse(text: str, sizes: Mapping[str, tuple[Any, ...]]) -> Any:
    """Parses a guard such as "L['x'].size()[0] // 2 == 4".

    Raises:
      ValueError: it has something else.
    """

    def read(node: ast.expr) -> Any:
        match node:
            case ast.Compare(left, [relation], [right]):
                return _OPERATORS[type(relation)](read(left), read(right))
            case ast.BoolOp(operation, parts):
                return _OPERATORS[type(operation)](*map(read, parts))
            case ast.BinOp(left, operation, right):
                return _OPERATORS[type(operation)](read(left), read(right))
            case ast.UnaryOp(ast.USub(), value):
                return -read(value)
            case ast.UnaryOp(ast.Not(), value):
                return sympy.Not(read(value))
            case ast.Constant(int() | float() as value):
                return sympy.sympify(value)
            case ast.Subscript(ast.Call(ast.Attribute(source, "size")), ast.Constant(int(dim))):
                return sizes["_".join(path(source))][dim]
            case ast.Call(function, arguments):
                return _FUNCTIONS[ast.unparse(function)](*map(read, arguments))
            case ast.Subscript() | ast.Attribute():
                return sizes["_".join(path(node))][0]  # an integer
        raise KeyError(ast.dump(node))

    def path(node: ast.expr) -> list[str]:
        """Path of an argument: x and 0 of L['x'][0], which export names x_0."""
        match node:
            case ast.Name("L"):
                return []
            case ast.Subscript(value, ast.Constant(key)) | ast.Attribute(value, key):
                return [*path(value), re.sub("[^a-z0-9]", "_", str(key).lower())]
        raise KeyError(ast.dump(node))

    try:
        return read(ast.parse(text, mode="eval").body)
    except (KeyError, IndexError, SyntaxError, TypeError, ZeroDivisionError) as error:
        raise unchecked(re.sub(r"L\['(\w+)'\]", r"\1", text)) from error


def unchecked(guard: str) -> ValueError:
    """The error for a guard that a program cannot check."""
    return ValueError(
        f"torch.export relies on {guard} of the sizes that may change, which a program cannot"
        f" check.\ntry:  no Dim for these, or a condition in the model that is made of + - * // % /"
        f" min() max() and comparisons"
    )
