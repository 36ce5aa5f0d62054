"""Further inputs to verify with: other sizes, other layouts, NaN and infinity.

All are derived from the example inputs, so that indices stay in range and masks are meaningful.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import sympy
import torch
from torch.export.graph_signature import InputKind

from pteron.exir.graph.exported_program import argument_name, input_specs_by_name
from pteron.exir.verification.reference import Reference

Sizes: TypeAlias = Mapping[sympy.Symbol, int]

_MOST = 1 << 27
"""Limit of the total elements of a call larger than the example."""

_HALVINGS = 40
_NEIGHBOURS = 16
"""How many smaller sizes are tried if a guard (even sizes, for example) rejects one."""


def other_inputs(reference: Reference, fits: Callable[[float], bool]) -> Iterator[Reference]:
    """All further inputs. `fits(n)`: whether there is time for n times the work of the example."""
    for tried in _other_layouts(reference):
        if fits(1):
            yield tried
    special = _with_nan_and_inf(reference)
    if special is not None and fits(1):
        yield special
    yield from _other_sizes(reference, fits)


def _other_layouts(reference: Reference) -> Iterator[Reference]:
    """The same inputs with other strides: non-contiguous, and channels last."""
    tensors = [v for v in reference.inputs() if isinstance(v, torch.Tensor)]
    if any(tensor.dim() for tensor in tensors):
        where = f"{reference.where}, strided"
        yield replace(reference, layout=_strided, where=where)
    if any(tensor.dim() > 1 for tensor in tensors):
        where = f"{reference.where}, channels last"
        yield replace(reference, layout=_channels_last, where=where)


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.dim():
        return tensor.clone()
    return torch.stack([tensor, tensor], -1)[..., 0]


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    """channels_last or channels_last_3d; for other ranks the first dimension is innermost."""
    if tensor.dim() < 2:
        return tensor.clone()
    channel = 1 if tensor.dim() in (4, 5) else 0
    moved = tensor.movedim(channel, -1).clone(memory_format=torch.contiguous_format)
    return moved.movedim(-1, channel)


def _with_nan_and_inf(reference: Reference) -> Reference | None:
    """Sets a few elements of each input to NaN, infinity or zero; None if no input is floating
    point.

    Also None with FFTs, signs of determinants, eigenvalues and singular values, where NaN is
    propagated, or an error, by the library's algorithm; with antialiased resizing, where it depends
    on rounding whether a weight at a border is 0; with grid_sample, where a place that is NaN gives
    NaN or 0 by which of torch's kernels is taken; with torch.mode, which counts NaN by its sort;
    and with torchvision's pooling, which reads memory wherever a box is.
    """
    unsafe = (
        *("fft", "stft"),
        "_slogdet",
        *("linalg_svd", "linalg_eig", "linalg_pinv", "linalg_matrix_rank", "linalg_cond"),
        "2d_aa",
        "grid_sampler",
        "aten.mode",
        "torchvision.roi",
        "torchvision.ps_roi",
        "torchvision.deform",
    )
    names = [str(node.target) for node in reference.functional.graph.nodes]
    if any(part in name for part in unsafe for name in names):
        return None
    generator = torch.Generator().manual_seed(0)
    inputs = reference.inputs()
    found = False
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
            found = True
            special = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0])
            places = torch.randperm(value.numel(), generator=generator)[: len(special)]
            flat = value.flatten()
            flat[places.to(value.device)] = special[: len(places)].to(flat)
            inputs[index] = flat.view(value.shape)
    where = "with NaN, infinity and zeros among its inputs"
    return replace(reference, given=inputs, where=where) if found else None


def _other_sizes(reference: Reference, fits: Callable[[float], bool]) -> Iterator[Reference]:
    """Minimum, intermediate and maximum sizes of each dynamic dimension.

    Args:
      reference: its example inputs are repeated or truncated.
      fits: whether there is time for a multiple of the example's work.
    """
    dims = _Dimensions(reference)
    seen: list[Sizes] = [dims.example]
    for sizes in dims.choices(fits):
        if sizes not in seen:
            seen.append(sizes)
            inputs = dims.inputs(sizes)
            yield replace(reference, given=inputs, where=f"where {dims.described(inputs)}")


def _at(expression: Any, sizes: Sizes) -> Any:
    return sympy.sympify(expression).xreplace({s: sympy.Integer(n) for s, n in sizes.items()})


class _Dimensions:
    """Dynamic sizes of a program.

    Attributes:
      example: their values in the example inputs.
    """

    def __init__(self, reference: Reference) -> None:
        self._inputs = reference.inputs()
        program = reference.program
        placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        specs = input_specs_by_name(program)
        self._names = [n for n, spec in specs.items() if spec.kind is InputKind.USER_INPUT]
        values = {node.name: node.meta.get("val") for node in placeholders}
        self._ranges = program.range_constraints
        self._sizes: list[tuple[int, int | None, Any]] = []  # input, dimension, expression
        for index, name in enumerate(self._names):
            value = values[name]
            shape = value.shape if isinstance(value, torch.Tensor) else [value]
            for dim, size in enumerate(shape):
                if isinstance(size, torch.SymInt):
                    place = dim if isinstance(value, torch.Tensor) else None
                    self._sizes.append((index, place, size.node.expr))
        self.example = self._solved()
        self._guards = reference.guards or ()
        self._work = Counter(
            math.prod(size.node.expr if isinstance(size, torch.SymInt) else size for size in shape)
            for node in reference.functional.graph.nodes
            if isinstance(node.meta.get("val"), torch.Tensor)
            and node.op == "call_function"
            and (shape := node.meta["val"].shape) is not None
        )

    def _solved(self) -> dict[Any, int]:
        known: dict[Any, int] = {}
        for index, dim, expression in self._sizes:
            size = self._inputs[index] if dim is None else self._inputs[index].shape[dim]
            left = _at(expression, known)
            if len(left.free_symbols) == 1:
                (symbol,) = left.free_symbols
                known[symbol] = int(sympy.solve(left - size, symbol)[0])
        return known

    def _allowed(self, sizes: Sizes) -> bool:
        for _, dim, expression in self._sizes:
            size, bounds = _at(expression, sizes), self._ranges.get(expression)
            if not size.is_integer or (dim is not None and size < 0):
                return False
            if bounds is not None and not bounds.lower <= size <= bounds.upper:
                return False
        return not any(_at(guard, sizes) == sympy.false for guard in self._guards)

    def _work_of(self, sizes: Sizes) -> float:
        """Total elements of all results, as far as known."""
        numbers = (count * _at(size, sizes) for size, count in self._work.items())
        return float(sum(number for number in numbers if number.is_number)) or 1.0

    def choices(self, fits: Callable[[float], bool]) -> Iterator[Sizes]:
        """Sizes to try, the cheapest first."""
        usual = self._work_of(self.example)

        def is_fit(sizes: Sizes) -> bool:
            work = self._work_of(sizes)
            return work <= max(usual, _MOST) and fits(work / usual)

        def fit(sizes: Sizes | None) -> Iterator[Sizes]:
            if sizes is not None and is_fit(sizes):
                yield sizes

        least = {s: self._least(s) for s in self.example}
        for symbol, smallest in least.items():
            for size in {smallest, max(1, smallest)}:
                yield from fit(self._near({**self.example, symbol: size}, symbol))
        if len(least) > 1:
            yield from fit(self._near({s: max(1, size) for s, size in least.items()}))
        for halving in range(_HALVINGS):
            most = {s: max(n, self._upper(s, n) >> halving) for s, n in self.example.items()}
            if most == self.example:
                break
            greatest = self._near(most)
            if greatest is not None and is_fit(greatest):
                between = {s: (least[s] + greatest[s]) // 2 for s in greatest}
                # Even where the example is odd, and the other way round: such sizes are rounded.
                between = {s: n + (n + 1 + self.example[s]) % 2 for s, n in between.items()}
                yield from fit(self._near(between))
                yield from fit(greatest)
                break

    def _upper(self, symbol: Any, usual: int) -> int:
        bounds = self._ranges.get(symbol)
        upper: Any = bounds.upper if bounds is not None else sympy.Integer(usual)
        return int(upper) if isinstance(upper, sympy.Integer) else 1 << 20

    def _least(self, symbol: Any) -> int:
        usual, bounds = self.example[symbol], self._ranges.get(symbol)
        # For a symbol that is only part of a size, uses the range of torch.export.
        is_size = any(symbol == expression for _, _, expression in self._sizes)
        first = max(0, int(bounds.lower)) if is_size and bounds is not None else 0
        tried = range(min(first, usual), usual)
        return next((n for n in tried if self._allowed({**self.example, symbol: n})), usual)

    def _near(self, sizes: Sizes, symbol: Any = None) -> Sizes | None:
        """These sizes, or slightly smaller ones that the program allows."""
        for less in range(_NEIGHBOURS):
            near = {s: n - less if symbol in (s, None) else n for s, n in sizes.items()}
            if min(near.values(), default=0) >= 0 and self._allowed(near):
                return near
        return None

    def inputs(self, sizes: Sizes) -> list[Any]:
        """The example inputs, repeated or truncated."""
        results, shrunk = list(self._inputs), set()
        for index, dim, expression in self._sizes:
            new = int(_at(expression, sizes))
            if dim is None:
                results[index] = new
                continue
            old = self._inputs[index].shape[dim]
            if new != old:
                rows = torch.arange(new, device=results[index].device) % max(old, 1)
                results[index] = results[index].index_select(dim, rows)
            if new < old:
                shrunk.add((old, new))
        for index, value in enumerate(self._inputs):
            if isinstance(value, torch.Tensor) and value.dtype in (torch.int32, torch.int64):
                # It may be a count or an index of a dimension that is now smaller.
                most = int(value.max()) if value.numel() else 0
                bounds = [new if most == old else new - 1 for old, new in shrunk if most <= old]
                if bounds:
                    results[index] = results[index].clamp(max=max(0, min(bounds)))
                if value.dim() == 1 and bool((value.diff() >= 0).all()):
                    # Such may have to rise: offsets of bags, segments.
                    results[index] = results[index].sort().values
        return results

    def described(self, inputs: list[Any]) -> str:
        """The inputs whose size differs from the example, with their sizes."""
        indices = dict.fromkeys(index for index, _, _ in self._sizes)
        return " and ".join(
            f"{argument_name(self._names[i])} is "
            + (f"{list(v.shape)}" if isinstance(v := inputs[i], torch.Tensor) else f"{v}")
            for i in indices
        )
