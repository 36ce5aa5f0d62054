"""Fuses a 2D convolution with zero padding, residual and clamp, and packs its weight.

    relu6(convolution(pad(x), w, b) + y)    ==>    packed_convolution(x, packed(w, b), y, ...)

Constant float32 weights are packed here, in the kernel's layout, rather than at each call, without
the rows and columns at their ends that only meet zeros, as those of dilated kernels in small images
do. Kernels of 3 x 3 over many channels are transformed for Winograd's convolution. Not packed:
patch embeddings (`patch_embedding_as_matmul`), 1x1 convolutions of a few pixels, and groups of few
channels.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.backends.aoti.ops.convolution.convolution import (
    CONVOLUTION,
    PACKED_CONVOLUTION,
    PANEL,
    WINOGRAD_CONVOLUTION,
    packed,
    transformed,
)
from pteron.backends.aoti.passes.clamp_windows import both_dims
from pteron.backends.aoti.passes.fuse_convolutions import (
    is_conv2d,
    only_user,
    residual_of,
    value_of,
)
from pteron.backends.aoti.passes.program_constants import ProgramConstants
from pteron.backends.cpu.passes.convolutions_as_images import convolutions_as_images
from pteron.backends.cpu.passes.patch_embedding_as_matmul import is_patch_embedding

_aten = torch.ops.aten

#: Input and output channels, and outputs of a channel, from which Winograd's convolution is faster.
_WINOGRAD_CHANNELS = 32
_WINOGRAD_OUTPUTS = 64

#: Terms of an output in a plane of the kernel, from which the cost of adding planes matters little.
_TERMS_OF_PLANE = 256

#: min and max of a clamp.
Bounds: TypeAlias = tuple[float | None, float | None]

#: By weight, bias, the rows and columns of the kernel, and whether it is Winograd's.
_Packed: TypeAlias = dict[tuple[Node, Node | None, range, range, bool], Node]


def pack_convolutions(program: ExportedProgram) -> None:
    """Rewrites the program's graph, signature and constants."""
    convolutions_as_images(program, _has_packable_weights, _suits_sums)
    constants = ProgramConstants(program)
    packed_weights: _Packed = {}
    convolutions = program.graph.find_nodes(op="call_function", target=CONVOLUTION)
    packable = [conv for conv in convolutions if _is_packable(conv, constants)]
    for conv in packable:
        _pack(conv, constants, packed_weights)
    if packable:
        constants.remove_unused()
        program.graph_module.recompile()


def _is_packable(conv: Node, constants: ProgramConstants) -> bool:
    if not is_conv2d(conv) or is_patch_embedding(conv):
        return False
    if not _has_packable_weights(conv, constants):
        return False
    batch, _, *space = value_of(conv).shape
    pixels = batch * math.prod(space)
    return not (_is_product(conv) and isinstance(pixels, int) and pixels < PANEL)


def _is_product(conv: Node) -> bool:
    """Whether it multiplies the channels of each pixel by a matrix."""
    args: Sequence[Any] = conv.args
    _, weight, _, stride, padding, _, _, _, groups = args
    return groups == 1 and max(*value_of(weight).shape[2:], *stride) == 1 and not any(padding)


def _has_packable_weights(conv: Node, constants: ProgramConstants) -> bool:
    """Whether weights and bias are constants of float32 that half fill panels of channels, or
    would fill a smaller part of a GEMM's."""
    args: Sequence[Any] = conv.args
    x, weight, bias, *_, groups = args
    tensors = [weight, *([] if bias is None else [bias])]
    if any(tensor not in constants for tensor in tensors):
        return False
    if any(value_of(tensor).dtype != torch.float32 for tensor in (x, *tensors)):
        return False
    out, of_group = value_of(weight).shape[:2]
    is_depthwise = groups > 1 and of_group == 1
    return is_depthwise or _is_product(conv) or 2 * (out // groups) >= PANEL


def _pack(conv: Node, constants: ProgramConstants, packed_weights: _Packed) -> None:
    args: Sequence[Any] = conv.args
    x, weight, bias, stride, padding, dilation, _, _, groups = args
    nodes, residual = [conv], None
    add = only_user(conv)
    if add is not None and (residual := residual_of(conv, add)) is not None:
        nodes.append(add)
    bounds: Bounds = (None, None)
    clamp = only_user(nodes[-1])
    if clamp is not None and (found := _bounds(clamp)) is not None:
        bounds = found
        nodes.append(clamp)
    sides = [size for size in both_dims(padding) for _ in range(2)]
    if (zeros := _zeros_around(x)) is not None:
        x = x.args[0]
        sides = [a + b for a, b in zip(sides, zeros, strict=True)]
    rows, columns = (_taps_in_image(conv, x, sides, dim) for dim in range(2))
    kernel_size = [len(rows), len(columns)]
    is_winograd = kernel_size == [3, 3] and _suits_winograd(conv)
    key = (weight, bias, rows, columns, is_winograd)
    if key not in packed_weights:
        value = None if bias is None else constants.value(bias)
        kernel = constants.value(weight)[:, :, rows.start : rows.stop, columns.start : columns.stop]
        kernel = transformed(kernel) if is_winograd else kernel
        packed_weights[key] = constants.add(weight, packed(kernel, value, groups))
    out, last = value_of(weight).shape[0], nodes[-1]
    window = (kernel_size, both_dims(stride), sides, both_dims(dilation), groups)
    op = WINOGRAD_CONVOLUTION if is_winograd else PACKED_CONVOLUTION
    options = (sides,) if is_winograd else window
    with last.graph.inserting_before(last):
        arguments = (x, packed_weights[key], residual, out, *options, *bounds)
        call = last.graph.call_function(op, arguments)
    call.meta = dict(last.meta)
    last.replace_all_uses_with(call)
    padded = conv.args[0]
    for node in reversed(nodes):
        node.graph.erase_node(node)
    if isinstance(padded, Node) and padded is not x and not padded.users:
        padded.graph.erase_node(padded)
    call.name = last.name  # which the signature of an output refers to


def _suits_sums(conv: Node) -> bool:
    """Whether a convolution of a volume is as fast as a sum of convolutions of its planes."""
    args: Sequence[Any] = conv.args
    _, of_group, *kernel = value_of(args[1]).shape
    return _suits_winograd(conv) or of_group * math.prod(kernel[-2:]) >= _TERMS_OF_PLANE


def _suits_winograd(conv: Node) -> bool:
    """Whether Winograd's way is for planes of the kernel of a convolution of images or volumes, and
    the products saved take longer than the transforms and than reading 16 weights instead of 9. A
    dynamic size counts as a large one."""
    args: Sequence[Any] = conv.args
    _, weight, _, stride, _, dilation, _, _, groups = args
    out, of_group, *kernel = value_of(weight).shape
    steps = [step for sizes in (stride, dilation) for step in both_dims(sizes[-2:])]
    sizes = [size for size in value_of(conv).shape[-2:] if isinstance(size, int)]
    return (
        kernel[-2:] == [3, 3]
        and max(*steps, groups) == 1
        and min(out, of_group) >= _WINOGRAD_CHANNELS
        and (len(sizes) < 2 or math.prod(sizes) >= _WINOGRAD_OUTPUTS)
    )


def _taps_in_image(conv: Node, x: Node, sides: list[int], dim: int) -> range:
    """The kernel's rows (`dim` 0) or columns (1) without those at its ends that lie outside of `x`
    for all outputs; `sides` becomes smaller accordingly."""
    args: Sequence[Any] = conv.args
    step, dilation = both_dims(args[3])[dim], both_dims(args[5])[dim]
    count, size = value_of(args[1]).shape[2 + dim], value_of(x).shape[2 + dim]
    first, last = 0, count - 1
    reach = (value_of(conv).shape[2 + dim] - 1) * step
    if not isinstance(size, int) or not isinstance(reach, int):
        return range(count)
    before, after = 2 * dim, 2 * dim + 1
    while first < last and sides[before] >= dilation and reach < sides[before]:
        sides[before] -= dilation
        first += 1
    while (
        first < last
        and sides[after] >= dilation
        and (last - first) * dilation - sides[before] >= size
    ):
        sides[after] -= dilation
        last -= 1
    return range(first, last + 1)


def _bounds(node: Node) -> Bounds | None:
    """min and max, if `node` clamps its first argument to constants."""
    args: Sequence[Any] = node.args
    if node.target is _aten.relu.default:
        return 0.0, None
    if node.target is _aten.hardtanh.default:
        bounds = (*args[1:], *(-1.0, 1.0)[len(args) - 1 :])
    elif node.target is _aten.clamp.default:
        bounds = (*args[1:], *(None, None)[len(args) - 1 :])
        bounds = (node.kwargs.get("min", bounds[0]), node.kwargs.get("max", bounds[1]))
    elif node.target is _aten.clamp_min.default:
        bounds = (args[1], None)
    else:
        return None
    if any(isinstance(bound, Node) for bound in bounds):
        return None
    least, most = (None if bound is None else float(bound) for bound in bounds)
    return least, most


def _zeros_around(x: Node) -> tuple[int, int, int, int] | None:
    """Padding above, below, left and right, if `x` is a zero-padded image with one user."""
    if x.target is not _aten.constant_pad_nd.default or len(x.users) > 1:
        return None
    args: Sequence[Any] = x.args
    pad: list[int] = args[1]
    value = args[2] if len(args) > 2 else 0
    if value != 0 or not all(isinstance(size, int) for size in pad):
        return None
    left, right, above, below, *others = [*pad, *[0, 0, 0, 0][len(pad) :]]
    if any(others) or min(left, right, above, below) < 0:
        return None
    return above, below, left, right
