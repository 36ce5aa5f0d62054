"""Export's guards: relations between sizes, such as Eq(s0*s1, s2)."""

import ast
import operator
import weakref
from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._sympy.functions import FloorDiv, Mod

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
        if not isinstance(value, torch.Tensor | torch.SymInt):
            continue
        shape: tuple[Any, ...] = tuple(value.shape) if isinstance(value, torch.Tensor) else (value,)
        symbolic = [size.node for size in shape if isinstance(size, torch.SymInt)]
        environment = symbolic[0].shape_env if symbolic else environment
        sizes[node.name] = tuple(
            size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)
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
        texts = " and ".join(getattr(program, "_guards_code", None) or ()).split(" and ")
        guards = [_parse(text, sizes) for text in texts if text]
        if not guards:
            guards = [environment.replace(guard.expr) for guard in environment.guards]
        _noted[environment] = tuple(guard for guard in guards if guard is not None)
    return _noted[environment]


def is_relation(guard: sympy.Basic) -> bool:
    """Whether a guard is more than a range and more than "not 0 or 1", which reflects tracing:
    declared dimensions may have these sizes."""
    if not isinstance(guard, sympy.core.relational.Relational):
        return False
    parts = list(sympy.preorder_traversal(guard))
    if isinstance(guard, sympy.Eq) or any(_is_remainder(part) for part in parts):
        return True
    is_least = {guard.lhs, guard.rhs} & {0, 1, 2} and not any(
        part.is_number and part < 0 for part in parts
    )
    return len(guard.free_symbols) > 1 and not is_least


def _is_remainder(part: sympy.Basic) -> bool:
    """Whether it is a size modulo a constant, rather than a constant modulo a size."""
    return "Mod" in type(part).__name__ and bool(part.args[1].is_number)


_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: FloorDiv,
    ast.Mod: Mod,
    ast.Pow: operator.pow,
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}


def _parse(text: str, sizes: Mapping[str, tuple[Any, ...]]) -> sympy.Basic | None:
    """Parses a guard such as "L['x'].size()[0] // 2 == 4"; None if it is no such relation."""

    def read(node: ast.expr) -> Any:
        match node:
            case ast.Compare(left, [relation], [right]):
                return _OPERATORS[type(relation)](read(left), read(right))
            case ast.BinOp(left, operation, right):
                return _OPERATORS[type(operation)](read(left), read(right))
            case ast.UnaryOp(ast.USub(), value):
                return -read(value)
            case ast.Constant(int(value)):
                return sympy.Integer(value)
            case ast.Call(ast.Name("max" | "min" as name), arguments):
                return (sympy.Max if name == "max" else sympy.Min)(*map(read, arguments))
            case ast.Subscript(ast.Call(ast.Attribute(source, "size")), ast.Constant(int(dim))):
                return sizes["_".join(path(source))][dim]
            case ast.Subscript():
                return sizes["_".join(path(node))][0]  # an integer
        raise KeyError(ast.dump(node))

    def path(node: ast.expr) -> list[str]:
        """Path of an argument: x and 0 of L['x'][0], which export names x_0."""
        match node:
            case ast.Name("L"):
                return []
            case ast.Subscript(value, ast.Constant(key)):
                return [*path(value), str(key)]
        raise KeyError(ast.dump(node))

    try:
        relation: sympy.Basic = read(ast.parse(text, mode="eval").body)
    except (KeyError, IndexError, SyntaxError, TypeError, ZeroDivisionError):
        return None
    return relation
