"""Rewrites a GEMM with a dequantized weight as int8 or int4 weight-only GEMM.

    mm(%x, %weight)    ==>    quantized_mm(%x, packed)

where `%weight`, [k, n], is computed from an int8 or uint8 constant by casts, views, and arithmetic
with other constants, as weight-only quantization leaves it. Values that fit into four bits are
packed as int4.

Dequantized weights, which a bfloat16 model would round, and accumulators are float32.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from pteron.backends.aoti.ops.quantized_mm import QUANTIZED_MM, Packing, pack
from pteron.backends.aoti.passes.constant_values import ConstantValues
from pteron.backends.aoti.passes.program_constants import ProgramConstants
from pteron.exir.operators.decompositions import replace_by_trace

_aten = torch.ops.aten
_BYTES = (torch.int8, torch.uint8)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
#: Elements below which a float32 weight is no loss.
_FEW = 1 << 12
#: Group sizes; a scale of a larger group is repeated.
_GROUP_SIZES = (128, 64, 32, 16)

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
    """Rewrites the program's graph, signature and constants."""
    constants = ProgramConstants(program)
    known = ConstantValues(constants)
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
                packed[right] = _packed(right, constants, known)
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
    right: Node, constants: ProgramConstants, known: ConstantValues
) -> tuple[Node, Packing] | None:
    """The packed weight, a new constant, and its format; None if `right` is not dequantized so."""
    path = _path(right, constants)
    if path is None:
        return None
    source = path[0]
    weight = _QuantizedWeight(constants.value(source))
    for before, node in itertools.pairwise(path):
        step = _step(before, node, known)
        if step is None:
            return None
        weight = step(weight)
    if weight.values.shape != right.meta["val"].shape:
        return None
    weight = weight.with_signed_values()
    rows, columns = weight.values.shape
    if weight.scale is None and weight.zero_point is None:
        packing = Packing(columns)
        return constants.add(source, pack(weight.values, packing)), packing
    for group_size in _GROUP_SIZES:
        if rows % group_size == 0 and (grouped := weight.with_groups(group_size)) is not None:
            low, high = weight.values.aminmax()
            bits = 4 if low >= -8 and high <= 7 else 8
            packing = Packing(columns, bits, group_size, grouped.zero_point is not None)
            data = pack(weight.values, packing, grouped.scale, grouped.zero_point)
            return constants.add(source, data), packing
    return None


def _path(right: Node, constants: ProgramConstants) -> list[Node] | None:
    """The chain of nodes from an 8-bit constant to `right`; None if there is no such chain."""
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
class _QuantizedWeight:
    """values * scale + zero_point, of the same shape. None: a scale of 1, a zero point of 0."""

    values: torch.Tensor
    scale: torch.Tensor | None = None
    zero_point: torch.Tensor | None = None

    def reshaped_by(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "_QuantizedWeight":
        scale, zero_point = (x if x is None else change(x) for x in (self.scale, self.zero_point))
        return _QuantizedWeight(change(self.values), scale, zero_point)

    def times(self, factor: torch.Tensor) -> "_QuantizedWeight":
        factor = factor.float().expand(self.values.shape)
        scale = factor if self.scale is None else self.scale * factor
        return _QuantizedWeight(
            self.values, scale, None if self.zero_point is None else self.zero_point * factor
        )

    def plus(self, term: torch.Tensor) -> "_QuantizedWeight":
        term = term.float().expand(self.values.shape)
        zero_point = term if self.zero_point is None else self.zero_point + term
        return _QuantizedWeight(self.values, self.scale, zero_point if zero_point.any() else None)

    def with_signed_values(self) -> "_QuantizedWeight":
        """The same with int8 values; the zero point makes up for those that were uint8."""
        if self.values.dtype == torch.int8:
            return self
        middle = 8 if self.values.max() < 16 else 128
        values = (self.values.to(torch.int16) - middle).to(torch.int8)
        scale = torch.ones((), dtype=torch.float32) if self.scale is None else self.scale
        return _QuantizedWeight(values, scale.expand(values.shape), self.zero_point).plus(
            middle * scale
        )

    def with_groups(self, group_size: int) -> "_QuantizedWeight | None":
        """With a scale and zero point a group of rows; None if they differ within a group."""
        shape = (-1, group_size, self.values.shape[1])
        scale = torch.ones(self.values.shape) if self.scale is None else self.scale
        scale = scale.reshape(shape)
        zero_point = None if self.zero_point is None else self.zero_point.reshape(shape)
        for each in (scale, zero_point):
            if each is not None and not bool((each == each[:, :1]).all()):
                return None
        return _QuantizedWeight(
            self.values, scale[:, 0], None if zero_point is None else zero_point[:, 0]
        )


def _step(
    before: Node, node: Node, known: ConstantValues
) -> Callable[[_QuantizedWeight], _QuantizedWeight] | None:
    """What `node` does to the quantized weight that `before` computes."""
    args: Sequence[Any] = node.args
    result = node.meta["val"]

    def reshaped(weight: _QuantizedWeight) -> _QuantizedWeight:
        return weight.reshaped_by(lambda x: x.reshape(result.shape))

    if node.target in _RESHAPES:
        return reshaped
    if node.target in _PERMUTES:
        return lambda weight: weight.reshaped_by(lambda x: x.permute(args[1]))
    if not result.is_floating_point():
        return None
    if node.target in _CASTS:
        return lambda weight: weight
    if node.kwargs or node.target not in (_aten.mul.Tensor, *_ADDS):
        return None
    first, second = args
    if first is not before and node.target is _aten.sub.Tensor:
        return None
    other = second if first is before else first
    value = known.of(other) if isinstance(other, Node) else torch.tensor(float(other))
    if value is None:
        return None
    # Broadcasting with the other operand may add dimensions of size 1.
    if node.target is _aten.mul.Tensor:
        return lambda weight: reshaped(weight).times(value)
    sign = _ADDS[node.target]
    return lambda weight: reshaped(weight).plus(sign * value.float())
