"""Ranges of symbolic sizes, and their upper bounds for memory planning."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from pteron.exir.graph.exported_program import argument_name, input_specs_by_name

Ranges: TypeAlias = Mapping[sympy.Expr, ValueRanges[Any]]

_LARGEST = 2**31 - 1
"""Sizes are 32-bit in the file."""


def affine(expression: sympy.Expr) -> tuple[sympy.Symbol, int, int] | None:
    """(symbol, scale, offset) of `scale * symbol + offset`, all integers; None for others."""
    if len(expression.free_symbols) != 1:
        return None
    (symbol,) = expression.free_symbols
    if not expression.is_polynomial(symbol) or sympy.degree(expression, symbol) != 1:
        return None
    scale, offset = sympy.Poly(expression, symbol).all_coeffs()
    return (symbol, int(scale), int(offset)) if scale.is_integer and offset.is_integer else None


def ranges_of(program: ExportedProgram) -> dict[sympy.Expr, ValueRanges[Any]]:
    """Ranges of symbols and expressions that callers may pass.

    Export traces with sizes of at least 2. A dimension `4*Dim("h", min=1)` has its own range, from
    4 on, while the range of `h` starts at 2; here it starts at 1.
    """
    ranges = dict(program.range_constraints)
    least: dict[sympy.Symbol, int] = {}
    for expression, given in program.range_constraints.items():
        parts = affine(expression)
        if parts is None or expression.is_Symbol or not given.lower.is_finite:
            continue
        symbol, scale, offset = parts
        if scale > 0:
            implied = max(-((offset - int(given.lower)) // scale), 0)
            least[symbol] = max(least.get(symbol, 0), implied)
    for symbol, lower in least.items():
        if symbol in ranges and lower < ranges[symbol].lower == 2:
            ranges[symbol] = ValueRanges(lower, ranges[symbol].upper)
    return ranges


class ShapeBounds:
    """Bounds of the sizes of one program.

    Unbounded sizes are collected in `unbounded` (and 0 is returned), so that all are reported
    together.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._ranges = ranges_of(program)
        self._symbols = {key: value for key, value in self._ranges.items() if key.is_Symbol}
        self.unbounded: list[str] = []

    def range_of(self, size: torch.SymInt) -> ValueRanges[Any]:
        """What `size` can be."""
        expression = size.node.expr
        found = bound_sympy(expression, self._symbols)
        return found & self._ranges[expression] if expression in self._ranges else found

    def lower(self, size: int | torch.SymInt) -> int:
        """The lower bound of `size`; at least 0."""
        return size if isinstance(size, int) else int(max(self.range_of(size).lower, 0))

    def upper(self, size: int | torch.SymInt, what: str) -> int:
        """The upper bound of `size`; `what` describes it in messages."""
        if isinstance(size, int):
            return size
        bound = self.range_of(size).upper
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
        """Raises ValueError if an unbounded size was queried."""
        if self.unbounded:
            unbounded = "\n".join(f"  {size}" for size in dict.fromkeys(self.unbounded))
            raise ValueError(
                f"sizes without an upper bound in method {method!r}:\n{unbounded}\n"
                f"Memory is planned before the program runs, so each size needs a largest value:"
                f" give it to torch.export, as in"
                f" dynamic_shapes={{'x': {{0: Dim('batch', max=64)}}}}"
                f" (a size that depends on data: torch._check(size <= 64) in the model)."
            )


def check_dynamic_sizes(program: ExportedProgram, method: str) -> None:
    """Raises ValueError if lowering has made sizes constant that torch.export left dynamic.

    Args:
      program: as torch.export returned it; what is derived from it shares its symbols.
      method: for the message.
    """
    constant = list[str]()
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr.is_number:
                symbols = size.node._expr.free_symbols
                places = size.node.shape_env.replacements_slocs
                by = ", ".join(str(places[symbol]) for symbol in symbols if symbol in places)
                what = f"dimension {dim} of input {argument_name(node.name)}"
                constant.append(f"  {what} is {size.node.expr} (by {by or 'an operator'})")
    constant += fixed_expressions(program)
    if constant:
        raise ValueError(
            f"sizes of method {method!r} that are dynamic in torch.export, and for which lowering"
            " finds but one value:\n"
            + "\n".join(constant)
            + "\ntry:  no Dim for these dimensions, or"
            " other operators at these lines; and please report it"
        )


def fixed_expressions(program: ExportedProgram) -> list[str]:
    """What is computed of a size that may change, and is taken to be what it is in the example."""
    found = dict[str, None]()
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        sizes: Any = value.shape if isinstance(value, torch.Tensor) else ()
        nodes = [size.node for size in sizes if isinstance(size, torch.SymInt)]
        for env in {id(node.shape_env): node.shape_env for node in nodes}.values():
            for guard in env.guards:
                expr = env.simplify(guard.expr)
                if not isinstance(expr, sympy.Eq) or len(expr.free_symbols) != 1:
                    continue
                (symbol,) = expr.free_symbols
                hints: Any = getattr(env, "backed_var_to_val", None)
                if hints is None:  # torch 2.11
                    hints = env.var_to_val
                range_, hint = program.range_constraints.get(symbol), hints.get(symbol)
                ends = {range_.lower, range_.upper} - {hint} if range_ else set()
                if range_ and not any(expr.subs(symbol, end) for end in ends):
                    found[f"  {guard.expr} (by {guard.sloc})"] = None
    return list(found)


def check_input_bounds(program: ExportedProgram, method: str) -> None:
    """Raises ValueError if an input of a program has a size without an upper bound, or a tensor has
    one that an integer input determines."""
    bounds = ShapeBounds(program)
    numbers = set[Any]()
    for node, (name, spec) in zip(
        program.graph.find_nodes(op="placeholder"),
        input_specs_by_name(program).items(),
        strict=True,
    ):
        value = node.meta.get("val")
        if spec.kind is InputKind.USER_INPUT and isinstance(value, torch.Tensor):
            bounds.sizes(value, f"input {name}")
        if isinstance(value, torch.SymInt):
            numbers |= value.node.expr.free_symbols
    for node in program.graph.nodes if numbers else ():
        value = node.meta.get("val")
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr.free_symbols & numbers:
                bounds.upper(size, f"dimension {dim} of the result of {node}")
    bounds.check(method)


def sources_of_sizes(
    graph: torch.fx.Graph, inputs: Iterable[torch.fx.Node]
) -> Iterable[torch.fx.Node]:
    """Inputs of the method that define symbols which `inputs` have only in sums and products: as a
    size or, if there is none, as the one symbol of a linear one (`16 * n`)."""
    inputs = list(inputs)
    placeholders = graph.find_nodes(op="placeholder")
    sizes = [size for node in inputs for size in _symbolic_sizes(node)]
    needs = {symbol for size in sizes if not size.is_Symbol for symbol in size.free_symbols}
    for defined in (_sizes_alone, _linear_sizes):
        for node in inputs:
            needs -= defined(node)
        for node in placeholders:
            if found := needs & defined(node):
                needs -= found
                yield node


def _sizes_alone(node: torch.fx.Node) -> set[Any]:
    return {size for size in _symbolic_sizes(node) if size.is_Symbol}


def _linear_sizes(node: torch.fx.Node) -> set[Any]:
    return {
        symbol
        for size in _symbolic_sizes(node)
        if len(size.free_symbols) == 1
        for symbol in size.free_symbols
        if size.diff(symbol).is_number
    }


def _symbolic_sizes(node: torch.fx.Node) -> list[Any]:
    value = node.meta.get("val")
    sizes: Iterable[Any] = value.shape if isinstance(value, torch.Tensor) else ()
    return [size.node.expr for size in sizes if isinstance(size, torch.SymInt)]
