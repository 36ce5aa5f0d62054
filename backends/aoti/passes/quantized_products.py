"""Products with dequantized weights read the packed numbers.

    mm(%x, %right)    ==>    quantized_mm(%x, bytes)

where `%right`, [k, n], is computed from a constant of whole numbers of a byte by casts, views and
numbers that are constant themselves, as weight-only quantization leaves it. What the numbers of a
byte use no more than four bits of is packed in four.

Sums and the weights, which a model of bfloat16 would round, are in float32.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from pteron.backends.aoti.passes.constant_values import ConstantValues
from pteron.backends.aoti.passes.program_constants import ProgramConstants
from pteron.backends.aoti.quantized import QUANTIZED_MM, Packing, pack
from pteron.exir.decompositions import replace_by_trace

_aten = torch.ops.aten
_BYTES = (torch.int8, torch.uint8)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
#: Numbers below which four bytes for one are no loss.
_FEW = 1 << 12
#: Rows that may share a scale; more of them have it several times.
_GROUPS = (128, 64, 32, 16)

_CASTS = (_aten._to_copy.default, _aten.clone.default)
_RESHAPES = (
    _aten._unsafe_view.default,
    _aten.reshape.default,
    _aten.squeeze_copy.dims,
    _aten.squeeze.dims,
    _aten.unsqueeze_copy.default,
    _aten.unsqueeze.default,
    _aten.view_copy.default,
    _aten.view.default,
)
_PERMUTES = (_aten.permute_copy.default, _aten.permute.default)
_ADDS = {_aten.add.Tensor: 1, _aten.sub.Tensor: -1}


def pack_quantized_weights(program: ExportedProgram) -> None:
    """Changes the program's graph, its signature and its tensors."""
    constants = ProgramConstants(program)
    values = ConstantValues(constants)
    packed: dict[Node, tuple[Node, Packing] | None] = {}
    changed = False
    for target in (_aten.mm.default, _aten.addmm.default):
        for node in program.graph.find_nodes(op="call_function", target=target):
            *bias, left, right = node.args
            value = left.meta["val"]
            if (
                node.kwargs
                or value.dtype not in _FLOATS
                or statically_known_true(value.shape[0] == 0)
            ):
                continue
            if right not in packed:
                packed[right] = _packed(right, constants, values)
            if (weight := packed[right]) is not None:
                changed |= _replace(node, left, *weight, bias)
    if changed:
        program.graph.eliminate_dead_code()
        constants.remove_unused()
        program.graph_module.recompile()


def _replace(node: Node, left: Node, weight: Node, packing: Packing, bias: Sequence[Node]) -> bool:
    def run(left: torch.Tensor, weight: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = QUANTIZED_MM(left, weight, *dataclasses.astuple(packing))
        for each in bias:
            result = result + each
        return result

    return replace_by_trace(node, run, [left, weight, *bias])


def _packed(
    right: Node, constants: ProgramConstants, values: ConstantValues
) -> tuple[Node, Packing] | None:
    """A constant of the bytes of `right`, and what they are; None if it is nothing of the kind."""
    path = _path(right, constants)
    if path is None:
        return None
    source = path[0]
    numbers = _Numbers(constants.value(source))
    for before, node in itertools.pairwise(path):
        step = _step(before, node, values)
        if step is None:
            return None
        numbers = step(numbers)
    if numbers.levels.shape != right.meta["val"].shape:
        return None
    numbers = numbers.of_signed_levels()
    rows, columns = numbers.levels.shape
    if numbers.scale is None and numbers.shift is None:
        packing = Packing(columns)
        return constants.add(source, pack(numbers.levels, packing)), packing
    for group in _GROUPS:
        if rows % group == 0 and (grouped := numbers.of_groups(group)) is not None:
            low, high = numbers.levels.aminmax()
            bits = 4 if low >= -8 and high <= 7 else 8
            packing = Packing(columns, bits, group, grouped.shift is not None)
            data = pack(numbers.levels, packing, grouped.scale, grouped.shift)
            return constants.add(source, data), packing
    return None


def _path(right: Node, constants: ProgramConstants) -> list[Node] | None:
    """From a constant of bytes to `right`: each node computes from the one before it."""
    path = [right]
    count = right.meta["val"].numel()
    if not isinstance(count, int) or count < _FEW:
        return None
    while path[0] not in constants:
        if not isinstance(path[0].target, torch._ops.OpOverload):
            return None
        sources = [
            node
            for node in path[0].all_input_nodes
            if isinstance(value := node.meta.get("val"), torch.Tensor) and value.numel() == count
        ]
        if len(sources) != 1:
            return None
        path.insert(0, sources[0])
    return path if path[0].meta["val"].dtype in _BYTES else None


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """levels * scale + shift. Tensors of one shape; without a scale it is 1, without a shift 0."""

    levels: torch.Tensor
    scale: torch.Tensor | None = None
    shift: torch.Tensor | None = None

    def laid_out(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "_Numbers":
        scale, shift = (x if x is None else change(x) for x in (self.scale, self.shift))
        return _Numbers(change(self.levels), scale, shift)

    def times(self, factor: torch.Tensor) -> "_Numbers":
        factor = factor.float().expand(self.levels.shape)
        scale = factor if self.scale is None else self.scale * factor
        return _Numbers(self.levels, scale, None if self.shift is None else self.shift * factor)

    def plus(self, term: torch.Tensor) -> "_Numbers":
        term = term.float().expand(self.levels.shape)
        shift = term if self.shift is None else self.shift + term
        return _Numbers(self.levels, self.scale, shift if shift.any() else None)

    def of_signed_levels(self) -> "_Numbers":
        """The same numbers from levels of int8, around zero if they have four bits."""
        if self.levels.dtype == torch.int8:
            return self
        middle = 8 if self.levels.max() < 16 else 128
        levels = (self.levels.to(torch.int16) - middle).to(torch.int8)
        scale = torch.ones((), dtype=torch.float32) if self.scale is None else self.scale
        return _Numbers(levels, scale.expand(levels.shape), self.shift).plus(middle * scale)

    def of_groups(self, group: int) -> "_Numbers | None":
        """The scale and shift of each `group` rows; None if not all of these have the same."""
        shape = (-1, group, self.levels.shape[1])
        scale = torch.ones(self.levels.shape) if self.scale is None else self.scale
        scale = scale.reshape(shape)
        shift = None if self.shift is None else self.shift.reshape(shape)
        for each in (scale, shift):
            if each is not None and not bool((each == each[:, :1]).all()):
                return None
        return _Numbers(self.levels, scale[:, 0], None if shift is None else shift[:, 0])


def _step(
    before: Node, node: Node, values: ConstantValues
) -> Callable[[_Numbers], _Numbers] | None:
    """What `node` makes of the numbers of `before`."""
    args: Sequence[Any] = node.args
    result = node.meta["val"]

    def reshaped(numbers: _Numbers) -> _Numbers:
        return numbers.laid_out(lambda x: x.reshape(result.shape))

    if node.target in _RESHAPES:
        return reshaped
    if node.target in _PERMUTES:
        return lambda numbers: numbers.laid_out(lambda x: x.permute(args[1]))
    if not result.is_floating_point():
        return None
    if node.target in _CASTS:
        return lambda numbers: numbers
    if node.kwargs or node.target not in (_aten.mul.Tensor, *_ADDS):
        return None
    first, second = args
    if first is not before and node.target is _aten.sub.Tensor:
        return None
    other = second if first is before else first
    value = values.of(other) if isinstance(other, Node) else torch.tensor(float(other))
    if value is None:
        return None
    # Dimensions of one may come with the other operand.
    if node.target is _aten.mul.Tensor:
        return lambda numbers: reshaped(numbers).times(value)
    sign = _ADDS[node.target]
    return lambda numbers: reshaped(numbers).plus(sign * value.float())
