"""Rewrites a GEMM with a dequantized weight as a GEMM with a quantized weight.

    mm(%x, %weight)    ==>    quantized_mm(%x, packed)                 for CPUs
                              quantized_mma(%x, packed, scales)        for tensor cores

where `%weight`, [k, n], is computed from constants of 8 bits by casts, views, and arithmetic with
other constants, as weight-only quantization leaves it. Values that fit into four bits are packed as
int4.

Dequantized weights, which a bfloat16 model would round, and accumulators are float32.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from pteron.backends.aoti.ops.quantized_mm import QUANTIZED_MM, Packing, pack
from pteron.backends.aoti.ops.quantized_mma import quantized_mma
from pteron.backends.aoti.passes.constant_values import ConstantValues
from pteron.backends.aoti.passes.program_constants import ProgramConstants
from pteron.exir.operators.decompositions import replace_by_trace

_aten = torch.ops.aten
_BYTES = (torch.int8, torch.uint8)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
#: Elements below which a float32 weight is no loss, and above which it is not looked at.
_FEW, _MANY = 1 << 12, 1 << 31
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
    """For CPUs: rewrites the program's graph, signature and constants."""
    _rewrite(program, _for_cpu, _BYTES)


def pack_for_tensor_cores(program: ExportedProgram) -> None:
    """For NVIDIA GPUs: rewrites the program's graph, signature and constants."""
    _rewrite(program, _for_tensor_cores, (*_BYTES, torch.float8_e4m3fn))


def _rewrite(program: ExportedProgram, form: "_Form", dtypes: Sequence[torch.dtype]) -> None:
    constants = ProgramConstants(program)
    known = ConstantValues(constants, _MANY)
    packed: dict[Node, tuple[list[Node], _Multiply] | None] = {}
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
                packed[right] = _packed(right, constants, known, form, dtypes)
            if (weight := packed[right]) is not None:
                changed |= _replace(node, left, *weight, bias)
    if changed:
        program.graph.eliminate_dead_code()
        constants.remove_unused()
        program.graph_module.recompile()


def _replace(
    node: Node, left: Node, weight: Sequence[Node], multiply: "_Multiply", bias: Sequence[Node]
) -> bool:
    def run(left: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        result = multiply(left, *more[: len(weight)])
        for each in more[len(weight) :]:
            result = result + each
        return result

    return replace_by_trace(node, run, [left, *weight, *bias])


def _packed(
    right: Node,
    constants: ProgramConstants,
    known: ConstantValues,
    form: "_Form",
    dtypes: Sequence[torch.dtype],
) -> "tuple[list[Node], _Multiply] | None":
    """The packed weight, new constants, and how to multiply by it; None if `right` is not
    dequantized so."""
    path = _path(right, dtypes)
    values = known.of(path[0]) if path else None
    if path is None or values is None:
        return None
    like = path[0]
    while like not in constants:
        if not like.all_input_nodes:
            return None
        like = like.all_input_nodes[0]
    weight = _QuantizedWeight(values.to(constants.value(like).device))
    for before, node in itertools.pairwise(path):
        step = _step(before, node, known)
        if step is None:
            return None
        weight = step(weight)
    if weight.values.shape != right.meta["val"].shape:
        return None
    made = form(weight.with_signed_values(), right.meta["val"].dtype)
    if made is None:
        return None
    tensors, multiply = made
    return [constants.add(like, tensor) for tensor in tensors], multiply


#: Multiplies x by a packed weight, its tensors in order.
_Multiply: TypeAlias = Callable[..., torch.Tensor]
#: Packs a weight that multiplies elements of a dtype; None: not in that form.
_Form: TypeAlias = Callable[
    ["_QuantizedWeight", torch.dtype], tuple[list[torch.Tensor], _Multiply] | None
]


def _for_cpu(
    weight: "_QuantizedWeight", dtype: torch.dtype
) -> tuple[list[torch.Tensor], _Multiply] | None:
    rows, columns = weight.values.shape
    data, packing = None, Packing(columns)
    if weight.scale is None and weight.zero_point is None:
        data = pack(weight.values, packing)
    for group_size in _GROUP_SIZES if data is None else ():
        if rows % group_size == 0 and (grouped := weight.with_groups(group_size)) is not None:
            low, high = weight.values.aminmax()
            bits = 4 if low >= -8 and high <= 7 else 8
            packing = Packing(columns, bits, group_size, grouped.zero_point is not None)
            data = pack(weight.values, packing, grouped.scale, grouped.zero_point)
            break
    if data is None:
        return None
    return [data], lambda x, data: QUANTIZED_MM(x, data, *dataclasses.astuple(packing))


def _for_tensor_cores(
    weight: "_QuantizedWeight", dtype: torch.dtype
) -> tuple[list[torch.Tensor], _Multiply] | None:
    rows, columns = weight.values.shape
    is_float = weight.values.dtype == torch.float8_e4m3fn
    if dtype == torch.float32 or rows % quantized_mma.CHUNK:
        return None
    if is_float and (weight.zero_point is not None or weight.values.float().isnan().any()):
        return None
    for group_size in (rows,) if is_float else (rows, 256, 128, 64, 32):
        if rows % group_size == 0 and (grouped := weight.with_groups(group_size)) is not None:
            break
    else:
        return None
    assert grouped.scale is not None
    scale = grouped.scale.to(dtype)
    if not torch.equal(scale.float(), grouped.scale):
        return None
    tensors = [quantized_mma.pack(weight.values), quantized_mma.pack_parameter(scale)]
    if grouped.zero_point is not None:
        tensors.append(quantized_mma.pack_parameter(grouped.zero_point))

    def multiply(
        x: torch.Tensor, data: torch.Tensor, scale: torch.Tensor, *zero_point: torch.Tensor
    ) -> torch.Tensor:
        zero = zero_point[0] if zero_point else None
        result: torch.Tensor = quantized_mma.QUANTIZED_MMA(x, data, scale, zero, columns)
        return result

    return tensors, multiply


def _path(right: Node, dtypes: Sequence[torch.dtype]) -> list[Node] | None:
    """The chain of nodes from an 8-bit tensor to `right`; None if there is no such chain."""
    path = [right]
    count = right.meta["val"].numel()
    if not isinstance(count, int) or count < _FEW:
        return None
    while path[0].meta["val"].dtype not in dtypes:
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
    return path


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
        factor = factor.float().to(self.values.device).expand(self.values.shape)
        scale = factor if self.scale is None else self.scale * factor
        return _QuantizedWeight(
            self.values, scale, None if self.zero_point is None else self.zero_point * factor
        )

    def plus(self, term: torch.Tensor) -> "_QuantizedWeight":
        term = term.float().to(self.values.device).expand(self.values.shape)
        zero_point = term if self.zero_point is None else self.zero_point + term
        return _QuantizedWeight(self.values, self.scale, zero_point if zero_point.any() else None)

    def with_signed_values(self) -> "_QuantizedWeight":
        """The same with int8 values; the zero point makes up for those that were uint8."""
        if self.values.dtype != torch.uint8:
            return self
        middle = 8 if self.values.max() < 16 else 128
        values = (self.values.to(torch.int16) - middle).to(torch.int8)
        scale = self.values.new_ones((), dtype=torch.float32) if self.scale is None else self.scale
        return _QuantizedWeight(values, scale.expand(values.shape), self.zero_point).plus(
            middle * scale
        )

    def with_groups(self, group_size: int) -> "_QuantizedWeight | None":
        """With a scale and zero point a group of rows; None if they differ within a group."""
        shape = (-1, group_size, self.values.shape[1])
        scale = self.scale
        if scale is None:
            scale = self.values.new_ones((), dtype=torch.float32).expand(self.values.shape)
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
