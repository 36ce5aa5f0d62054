"""Sizes that dynamic_shapes lets change: in example inputs, and where forward() reads them."""

import contextlib
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import sympy
import torch
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.utils import _pytree as pytree

from pteron.exir.graph.shape_bounds import fixed_expressions
from pteron.exporter.conditions import outcome, place_of
from pteron.exporter.proofs_of_sizes import sizes_where
from pteron.exporter.refusals import is_models

_Bound = inspect.BoundArguments

#: A number that sizes are compared with, up to which inputs are made to see what the model does.
_LARGEST = 1 << 14


def resized(inputs: _Bound, shapes: Any, size: Callable[[Any, int], int]) -> _Bound:
    """The same inputs with `size(dim, before)` elements in each dimension that has a Dim, of which
    they come again in turn."""

    def of(value: Any, spec: Any) -> Any:
        if not spec:
            return value
        if isinstance(value, torch.Tensor):
            for i, dim in spec.items() if isinstance(spec, Mapping) else enumerate(spec):
                before = value.shape[i]
                if before and (now := size(dim, before)) != before:
                    which = torch.arange(now, device=value.device) % before
                    grad = value.requires_grad
                    value = value.detach().index_select(i, which).requires_grad_(grad)
            return value
        parts, structure = pytree.tree_flatten(value, is_leaf=lambda part: part is not value)
        if structure.is_leaf() or isinstance(spec, Dim):
            return value
        specs = [spec.get(key) for key in value] if isinstance(spec, Mapping) else [*spec]
        return pytree.tree_unflatten(map(of, parts, specs), structure)

    if not isinstance(shapes, Mapping):
        return inputs
    values = {key: of(value, shapes.get(key)) for key, value in inputs.arguments.items()}
    return _Bound(inputs.signature, values)


def roots(inputs: _Bound, shapes: Any) -> dict[str, tuple[Dim, int]]:
    """The Dims by name, those also of which others are derived, with their sizes in the inputs."""
    found: dict[str, tuple[Dim, int]] = {}

    def note(dim: Any, size: int) -> int:
        if isinstance(dim, Dim):
            root, number = getattr(dim, "root", dim), size
            if root is not dim:  # it is linear
                of: Any = dim
                none, one = (int(of.fn(sympy.Integer(n))) for n in (0, 1))
                number = (size - none) // (one - none)
            found[root.__name__] = root, number
        return size

    resized(inputs, shapes, note)
    return found


def with_sizes(inputs: _Bound, shapes: Any, sizes: Mapping[str, int]) -> _Bound:
    """The same inputs with other sizes of some Dims."""

    def size(dim: Any, before: int) -> int:
        root = getattr(dim, "root", dim)
        now = sizes.get(getattr(root, "__name__", ""))
        return before if now is None else now if root is dim else int(dim.fn(sympy.Integer(now)))

    return resized(inputs, shapes, size)


def without_ones(inputs: _Bound, shapes: Any) -> _Bound:
    """The same inputs with 2 where a size is 1 and may change: torch.export takes 1 for a
    constant."""
    found = roots(inputs, shapes).items()
    ones = {name: 2 for name, (dim, size) in found if size == 1 and dim.max > 1}
    return with_sizes(inputs, shapes, ones) if ones else inputs


def check_derived(program: ExportedProgram) -> None:
    """Raises ValueError if a size that is derived from a Dim (`16 * rows`) is a constant, of which
    torch.export then tells nobody."""
    if fixed := fixed_expressions(program):
        raise ValueError(
            "Constraints violated: of a size that may change, torch.export specialized it to be a"
            " constant,\n" + "\n".join(fixed)
        )


class _Converting(type):
    def __call__(cls, value: Any = 0, *rest: Any) -> Any:
        if isinstance(value, torch.SymInt | torch.SymFloat) and not rest:
            return torch.sym_int(value) if cls is _Int else torch.sym_float(value)
        return cls.__mro__[1](value, *rest)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__mro__[1])


class _Int(int, metaclass=_Converting):
    pass


class _Float(float, metaclass=_Converting):
    pass


def _sqrt(value: Any) -> Any:
    return (torch.sym_sqrt if isinstance(value, torch.SymInt | torch.SymFloat) else math.sqrt)(
        value
    )


#: By identity, what keeps a size dynamic instead of a function or type.
_SYMBOLIC: dict[int, Any] = {
    id(int): _Int,
    id(float): _Float,
    id(math.sqrt): _sqrt,
}
_SYMBOLIC[id(math)] = types.SimpleNamespace(**{**vars(math), "sqrt": _sqrt})


@contextlib.contextmanager
def noted_conversions(places: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Inside, Python code of a model that makes a number of a dynamic size is noted by file and
    line, with the globals of its module."""
    convert: Any = torch.SymInt.__int__

    def noting(size: torch.SymInt) -> Any:
        frame = sys._getframe(1)
        if is_models(frame.f_code.co_filename) and not size.node.expr.is_number:
            places[place_of(frame)] = frame.f_globals
        return convert(size)

    with (
        mock.patch.object(torch.SymInt, "__int__", noting),
        mock.patch.object(torch.SymInt, "__index__", noting),
    ):
        yield


@contextlib.contextmanager
def symbolic_conversions(places: Mapping[str, dict[str, Any]]) -> Iterator[None]:
    """Inside, int(), float() and math.sqrt() keep sizes dynamic in these modules."""
    with contextlib.ExitStack() as stack:
        for names in {id(names): names for names in places.values()}.values():
            named = {"int": int, "float": float, **names}.items()
            found = {k: _SYMBOLIC[id(value)] for k, value in named if id(value) in _SYMBOLIC}
            stack.enter_context(mock.patch.dict(names, found))
        yield


class ComparedSizes:
    """Inside, Python code of a model compares dynamic sizes with others without any being made
    constant, as an earlier call's (`if self.shape != x.shape`) or a table's: none is equal, and
    what is larger is so as in the example inputs, or else otherwise. Whether the program then
    computes what the model does is to be compared for `candidates`.

    Attributes:
      places: file and line of each comparison.
      numbers: what sizes are compared with.
    """

    def __init__(self, otherwise: bool) -> None:
        self._otherwise = otherwise
        self.places: dict[str, None] = {}
        self.numbers: set[int] = set()

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        evaluate: Any = torch.SymBool.__bool__

        def decided(condition: torch.SymBool) -> bool:
            frame = sys._getframe(1)
            expr, hint = condition.node.expr, condition.node.hint
            if (
                not is_models(frame.f_code.co_filename)
                or hint is None
                or free_unbacked_symbols(expr)
                or outcome(frame) is not None
                or statically_known_true(condition)
                or statically_known_true(torch.sym_not(condition))
            ):
                return bool(evaluate(condition))
            self.places[place_of(frame)] = None
            self.numbers |= {int(n) for n in expr.atoms(sympy.Integer)}
            is_equality = isinstance(expr, sympy.Eq | sympy.Ne)
            value = isinstance(expr, sympy.Ne) if is_equality else bool(hint) is not self._otherwise
            self.numbers |= sizes_where(condition.node.shape_env, expr, not value)
            return value

        with mock.patch.object(torch.SymBool, "__bool__", decided):
            yield

    def can_be_tried(self) -> bool:
        """Whether inputs of sizes near all numbers in comparisons are small."""
        return max(self.numbers, default=0) <= _LARGEST

    def candidates(self, inputs: _Bound, shapes: Any) -> Iterator[_Bound]:
        """Inputs of sizes for which comparisons may have another outcome, each of one Dim; first
        the same."""
        yield inputs
        found = roots(inputs, shapes)
        numbers = self.numbers | {size for _, size in found.values()}
        near = {n // m + d for n in numbers for m in {1, *numbers} if m > 0 for d in (-1, 0, 1)}
        for name, (dim, size) in found.items():
            for n in sorted(near - {size}):
                if max(dim.min, 1) <= n <= dim.max:
                    yield with_sizes(inputs, shapes, {name: n})


def all_are_dims(shapes: Any) -> bool:
    """Whether all that may change has a name."""
    return all(leaf is None or isinstance(leaf, Dim | int) for leaf in pytree.tree_leaves(shapes))
