"""Rewrites a GEMM with a dequantized weight as a GEMM with a quantized weight.

    mm(%x, %weight)    ==>    quantized_mm(%x, packed)                 for CPUs
                              quantized_mma(%x, packed, scales)        for tensor cores

where `%weight`, [k, n], is computed from constants of 8 bits by casts, views, and arithmetic with
other constants, as weight-only quantization leaves it. Values that fit into four bits are packed as
int4.

Dequantized weights, which a bfloat16 model would round, and accumulators are float32.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from pteron.backends.aoti.ops.quantized_mm import QUANTIZED_MM, Packing, pack
from pteron.backends.aoti.ops.quantized_mma import quantized_mma
from pteron.backends.aoti.passes.constant_values import ConstantValues
from pteron.backends.aoti.passes.gemm_surroundings import (
    RESHAPES,
    gate_of,
    norm_of,
    residual_of,
    viewed,
)
from pteron.backends.aoti.passes.program_constants import ProgramConstants
from pteron.exir.operators.decompositions import insert_trace, replace_by_trace, replace_node

_aten = torch.ops.aten
_BYTES = (torch.int8, torch.uint8)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
#: Elements below which a float32 weight is no loss, and above which it is not looked at.
_FEW, _MANY = 1 << 12, 1 << 31
#: What rounding a scale to the dtype of the model may change: half a unit of bfloat16.
_SCALE_ERROR = 2.0**-8
#: Group sizes; a scale of a larger group is repeated.
_GROUP_SIZES = (128, 64, 32, 16)

_CASTS = (_aten._to_copy.default, _aten.clone.default)
_PERMUTES = (_aten.permute_copy.default, _aten.permute.default)
_ADDS = {_aten.add.Tensor: 1, _aten.sub.Tensor: -1}


def pack_quantized_weights(program: ExportedProgram) -> None:
    """For CPUs: rewrites the program's graph, signature and constants."""
    rewriter = _Rewriter(program, _BYTES)
    packed: dict[Node, tuple[Node, Packing] | None] = {}
    for node, left, right, bias in rewriter.gemms():
        if right not in packed:
            packed[right] = _panels(rewriter, right)
        if (weight := packed[right]) is not None:
            _replace_by_panels(node, left, *weight, bias)
    rewriter.finish()


def pack_for_tensor_cores(program: ExportedProgram, fuse: bool = False) -> None:
    """For NVIDIA GPUs: rewrites the program's graph, signature and constants.

    A scale of columns after the GEMM is moved into the weight. GEMMs of one left operand, as those
    of query, key and value, become one.

    Args:
        fuse: GEMMs of one row with what surrounds them, also with weights that are not quantized;
            needs compute capability 8.0.
    """
    rewriter = _Rewriter(program, (*_BYTES, torch.float8_e4m3fn))
    alike: dict[Any, list[tuple[Node, Sequence[Node], Node | None, _Fragments]]] = {}
    plain: dict[Any, list[tuple[Node, Node]]] = {}
    for node, left, right, bias in rewriter.gemms():
        if (weight := rewriter.weight(right)) is None:
            if fuse and not bias and (origin := rewriter.rows(right)) is not None:
                rows = (viewed(left), str(left.meta["val"].shape))
                plain.setdefault(rows, []).append((node, origin))
            continue
        scale = None if bias else rewriter.scale_after(node)
        scaled = weight.times(scale[1]) if scale else weight
        if (fragments := _Fragments.of(scaled, right.meta["val"].dtype)) is None:
            continue
        key = (
            *(viewed(left), str(left.meta["val"].shape)),
            *(fragments.kind, fragments.scale.shape[0], fragments.zero_point is None),
        )
        alike.setdefault(key, []).append((node, bias, rewriter.origin(right), fragments))
        if scale:
            replace_node(scale[0], scale[0].args[0])  # type: ignore[arg-type]
    for members in alike.values():
        _replace_by_fragments(rewriter.constants, members, fuse)
    for pairs in plain.values():
        _fuse_plain(rewriter.constants, pairs)
    rewriter.finish()


class _Rewriter:
    """GEMMs of a program, and the quantized weights among their operands."""

    def __init__(self, program: ExportedProgram, dtypes: Sequence[torch.dtype]) -> None:
        self.constants = ProgramConstants(program)
        self._program = program
        self._known = ConstantValues(self.constants, _MANY)
        self._dtypes = dtypes

    def gemms(self) -> Iterator[tuple[Node, Node, Node, Sequence[Node]]]:
        """Node, left and right operand and, if any, what is added."""
        for target in (_aten.mm.default, _aten.addmm.default):
            for node in self._program.graph.find_nodes(op="call_function", target=target):
                *bias, left, right = node.args
                value = left.meta["val"]
                is_empty = statically_known_true(value.shape[0] == 0)
                if not node.kwargs and value.dtype in _FLOATS and not is_empty:
                    yield node, left, right, bias

    def weight(self, right: Node) -> "_QuantizedWeight | None":
        """The quantized weight, with signed values; None if `right` is not dequantized so."""
        path = _path(right, self._dtypes)
        origin = self.origin(right) if path else None
        values = self._known.of(path[0]) if path and origin else None
        if path is None or values is None:
            return None
        weight = _QuantizedWeight(values.to(self.constants.value(origin).device))
        for before, node in itertools.pairwise(path):
            step = _step(before, node, self._known)
            if step is None:
                return None
            weight = step(weight)
        if weight.values.shape != right.meta["val"].shape:
            return None
        return weight.with_signed_values()

    def origin(self, right: Node) -> Node | None:
        """The constant that the values of a weight come from."""
        path = _path(right, self._dtypes)
        node = path[0] if path else None
        while node is not None and node not in self.constants:
            node = next(iter(node.all_input_nodes), None)
        return node

    def rows(self, right: Node) -> Node | None:
        """The constant, [columns, rows], of which the weight of a GEMM is the transpose, if a fused
        GEMM takes it."""
        if right.target not in _PERMUTES:
            return None
        (node,) = right.all_input_nodes
        value = node.meta["val"]
        if node not in self.constants or right.args[1] not in ([1, 0], [-1, -2]):
            return None
        fits = value.dtype in (torch.bfloat16, torch.float16) and value.is_contiguous()
        fits &= value.shape[0] % quantized_mma.STRIP == 0 == value.shape[1] % quantized_mma.CHUNK
        return node if fits and value.storage_offset() * value.itemsize % 16 == 0 else None

    def scale_after(self, node: Node) -> tuple[Node, torch.Tensor] | None:
        """The multiplication of the GEMM's result, its only use, by a constant for each column, and
        that constant."""
        while len(node.users) == 1:
            (user,) = node.users
            if user.target is _aten.mul.Tensor and user.args[0] is node:
                scale = user.args[1]
                value = self._known.of(scale) if isinstance(scale, Node) else None
                columns = node.meta["val"].shape[-1]
                same = user.meta["val"].dtype == node.meta["val"].dtype
                if value is None or not same or not value.numel() == columns == value.shape[-1]:
                    return None
                return user, value.view(1, -1)
            is_view = user.target in RESHAPES
            if not is_view or user.meta["val"].shape[-1:] != node.meta["val"].shape[-1:]:
                return None
            node = user
        return None

    def finish(self) -> None:
        self._program.graph.eliminate_dead_code()
        self.constants.remove_unused()
        self._program.graph_module.recompile()


def _panels(rewriter: _Rewriter, right: Node) -> tuple[Node, Packing] | None:
    """The packed weight, a new constant, and its format; None if it is in no such form."""
    weight, origin = rewriter.weight(right), rewriter.origin(right)
    if weight is None or origin is None:
        return None
    rows, columns = weight.values.shape
    if weight.scale is None and weight.zero_point is None:
        packing = Packing(columns)
        return rewriter.constants.add(origin, pack(weight.values, packing)), packing
    for group_size in _GROUP_SIZES:
        if rows % group_size == 0 and (grouped := weight.with_groups(group_size)) is not None:
            bits = 4 if _fits_four_bits(weight.values) else 8
            packing = Packing(columns, bits, group_size, grouped.zero_point is not None)
            data = pack(weight.values, packing, grouped.scale, grouped.zero_point)
            return rewriter.constants.add(origin, data), packing
    return None


def _replace_by_panels(
    node: Node, left: Node, weight: Node, packing: Packing, bias: Sequence[Node]
) -> None:
    def run(left: torch.Tensor, weight: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = QUANTIZED_MM(left, weight, *dataclasses.astuple(packing))
        for each in bias:
            result = result + each
        return result

    replace_by_trace(node, run, [left, weight, *bias])


@dataclasses.dataclass(frozen=True)
class _Fragments:
    """A weight that quantized_mma takes, before it is packed.

    Attributes:
        kind: of the values; weights of one kind can be joined.
        scale, zero_point: [groups, columns]; of the left operand's dtype, and float32.
    """

    kind: str
    values: torch.Tensor
    scale: torch.Tensor
    zero_point: torch.Tensor | None

    @classmethod
    def of(cls, weight: "_QuantizedWeight", dtype: torch.dtype) -> "_Fragments | None":
        rows = weight.values.shape[0]
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
        exact = (scale.float() - grouped.scale).abs() <= _SCALE_ERROR * grouped.scale.abs()
        if not exact.all():
            return None
        kind = "float8" if is_float else "int4" if _fits_four_bits(weight.values) else "int8"
        return cls(kind, weight.values, scale, grouped.zero_point)


class _Surroundings:
    """What GEMMs of one left operand, of one row, are fused with."""

    def __init__(self, constants: ProgramConstants, nodes: Sequence[Node], even: bool) -> None:
        left = nodes[0].args[-2]
        assert isinstance(left, Node)
        self.norm = norm_of(left, nodes)
        if self.norm and self.norm.weight not in constants:
            self.norm = None  # it is read before kernels of this call have ended
        self.gate = _gate(nodes, even)
        is_alone = len(nodes) == 1 and nodes[0].target is not _aten.addmm.default
        self.residual = residual_of(nodes[0]) if is_alone else None
        self.x = self.norm.x if self.norm else left
        self.last = self.gate[0] if self.gate else (self.residual or nodes)[0]

    def __bool__(self) -> bool:
        return bool(self.norm or self.gate or self.residual)

    def insert(self, weights: Mapping[str, Node | None], columns: int) -> Node:
        """A GEMM fused with them, which replaces the last of what it is fused with."""
        inputs = {
            **{"x": self.x, "norm": self.norm.weight if self.norm else None},
            **{"residual": self.residual[1] if self.residual else None, **weights},
        }
        given = {name: node for name, node in inputs.items() if node is not None}

        def multiply(*values: torch.Tensor) -> torch.Tensor:
            named = dict(zip(given, values, strict=True))
            residual = named.get("residual")
            product: torch.Tensor = quantized_mma.FUSED_MMA(
                named["x"].reshape(1, -1),
                *(named.get(name) for name in _WEIGHTS),
                columns,
                named.get("norm"),
                self.norm.epsilon if self.norm else 0.0,
                None if residual is None else residual.reshape(1, -1),
                self.gate is not None,
            )
            is_last = self.gate or self.residual
            return product.reshape(self.last.meta["val"].shape) if is_last else product

        product = insert_trace(self.last, multiply, list(given.values()))
        assert isinstance(product, Node)
        if self.gate or self.residual:
            replace_node(self.last, product)
        return product


def _gate(nodes: Sequence[Node], even: bool) -> tuple[Node, bool] | None:
    """`gate_of` two GEMMs that can be one with it."""
    biased = any(node.target is _aten.addmm.default for node in nodes)
    return gate_of(nodes) if even and not biased and len(nodes) == 2 else None


#: Arguments of a fused GEMM.
_WEIGHTS = ("weight", "second", "third", "scales", "zero_points")


def _fuse_plain(constants: ProgramConstants, pairs: Sequence[tuple[Node, Node]]) -> None:
    """Fuses GEMMs of one left operand and constants, [columns, rows], with what surrounds them."""
    nodes, weights = [node for node, _ in pairs], [weight for _, weight in pairs]
    widths = [weight.meta["val"].shape[0] for weight in weights]
    rows, depth = nodes[0].args[-2].meta["val"].shape  # type: ignore[union-attr]
    is_row = statically_known_true(rows == 1) and depth <= quantized_mma.MOST_NORMALIZED
    if not is_row or len(weights) > 3:
        return
    if around := _Surroundings(constants, nodes, len(set(widths)) == 1):
        swapped = -1 if around.gate and around.gate[1] else 1
        product = around.insert(dict(zip(_WEIGHTS, weights[::swapped], strict=False)), sum(widths))
        if not (around.gate or around.residual):
            _split(product, [(node, ()) for node in nodes], widths, widths)


def _replace_by_fragments(
    constants: ProgramConstants,
    members: Sequence[tuple[Node, Sequence[Node], Node | None, _Fragments]],
    fuse: bool,
) -> None:
    """Replaces GEMMs of one left operand, with weights of one kind, by one."""
    first, _, origin, _ = members[0]
    assert origin is not None
    nodes, weights = [node for node, *_ in members], [weight for *_, weight in members]
    left = first.args[-2]
    assert isinstance(left, Node)
    rows, depth = left.meta["val"].shape
    fuse &= depth <= quantized_mma.MOST_NORMALIZED
    columns = [weight.values.shape[1] for weight in weights]
    even = len(set(columns)) == 1 and columns[0] % (quantized_mma.STRIP // 2) == 0
    # Whatever the number of rows: methods for one row and for many share the weight.
    gate = _gate(nodes, even) if fuse else None
    is_row = statically_known_true(rows == 1)
    around = _Surroundings(constants, nodes, even) if fuse and is_row else None
    sizes = [-(-width // quantized_mma.STRIP) * quantized_mma.STRIP for width in columns]

    def joined(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        if gate:
            return quantized_mma.interleave(*parameters[:: -1 if gate[1] else 1])
        return torch.cat([quantized_mma.pack_parameter(each) for each in parameters], 1)

    values = joined([weight.values.view(torch.uint8) for weight in weights])
    packed = quantized_mma.pack(values.view(weights[0].values.dtype))
    count = columns[0] if len(weights) == 1 else sum(columns if gate else sizes)
    zeros = [weight.zero_point for weight in weights if weight.zero_point is not None]
    inputs = {
        "weight": constants.add(origin, packed),
        "scales": constants.add(origin, joined([weight.scale for weight in weights])),
        "zero_points": constants.add(origin, joined(zeros)) if zeros else None,
    }
    if around:
        product = around.insert(inputs, count)
        if around.gate or around.residual:
            return
    else:
        given = [node for node in (left, *inputs.values()) if node is not None]

        def multiply(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
            zero_points = weights[2] if zeros else None
            result: torch.Tensor = quantized_mma.QUANTIZED_MMA(x, *weights[:2], zero_points, count)
            return result

        inserted = insert_trace(first, multiply, given)
        assert isinstance(inserted, Node)
        product = inserted
    if gate:
        return _split_interleaved(product, nodes[:: -1 if gate[1] else 1])
    _split(product, [(node, bias) for node, bias, *_ in members], columns, sizes)


def _split(
    product: Node,
    members: Sequence[tuple[Node, Sequence[Node]]],
    columns: Sequence[int],
    sizes: Sequence[int],
) -> None:
    """Replaces GEMMs by their `columns` of one GEMM, in which each has `sizes`, and their bias."""
    begin = 0
    for (node, bias), width, size in zip(members, columns, sizes, strict=True):
        end = begin + width

        def run(
            product: torch.Tensor,
            *bias: torch.Tensor,
            begin: int = begin,
            end: int = end,
        ) -> torch.Tensor:
            part = product if len(members) == 1 else product[:, begin:end]
            return part + bias[0] if bias else part

        if len(members) == 1 and not bias:
            replace_node(node, product)
        else:
            replace_by_trace(node, run, [product, *bias])
        begin += size


def _split_interleaved(product: Node, nodes: Sequence[Node]) -> None:
    """Replaces two GEMMs by the result of one, whose weight is interleaved."""

    def part(place: int, product: torch.Tensor) -> torch.Tensor:
        return product.unflatten(1, (-1, 2, quantized_mma.STRIP // 2))[:, :, place].flatten(1)

    for place, node in enumerate(nodes):
        replace_by_trace(node, functools.partial(part, place), [product])


def _fits_four_bits(values: torch.Tensor) -> bool:
    low, high = values.aminmax()
    return bool(low >= -8 and high <= 7)


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

    if node.target in RESHAPES:
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
