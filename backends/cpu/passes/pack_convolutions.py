"""Makes one operator of a convolution over images, the zeros around the image, and what follows.

    relu6(convolution(pad(x), w, b) + y)    ==>    packed_convolution(x, packed(w, b), y, ...)

Weights of the model, in float32, are arranged here, as the kernel's registers read them, rather
than at each call. Left alone are patches that do not overlap (`patches_as_products`), products of
images (1x1 kernels) that are large or have activations, and groups of few channels.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.backends.aoti.ops.convolution import CONVOLUTION, PACKED_CONVOLUTION, PANEL, packed
from pteron.backends.aoti.passes.fuse_convolutions import (
    added_to,
    is_over_images,
    only_user,
    value_of,
)
from pteron.backends.aoti.passes.program_constants import ProgramConstants
from pteron.backends.cpu.passes.patches_as_products import reads_patches

_aten = torch.ops.aten

#: What may follow a packed product.
_TAKEN_IN = (CONVOLUTION, PACKED_CONVOLUTION, _aten.add.Tensor, _aten.constant_pad_nd.default)

#: Multiplications of products that are generated: those are blocked for their epilogues.
_LARGE_PRODUCT = 1 << 25

#: The numbers of a clamp: the least and the most.
Bounds: TypeAlias = tuple[float | None, float | None]


def pack_convolutions(program: ExportedProgram) -> None:
    """Changes the program's graph, its signature and its tensors."""
    constants = ProgramConstants(program)
    arranged: dict[tuple[Node, Node | None], Node] = {}
    convolutions = program.graph.find_nodes(op="call_function", target=CONVOLUTION)
    packable = [conv for conv in convolutions if _is_packable(conv, constants)]
    for conv in packable:
        _pack(conv, constants, arranged)
    if packable:
        constants.remove_unused()
        program.graph_module.recompile()


def _is_packable(conv: Node, constants: ProgramConstants) -> bool:
    if not is_over_images(conv) or reads_patches(conv):
        return False
    args: Sequence[Any] = conv.args
    x, weight, bias, stride, padding, dilation, _, _, groups = args
    tensors = [weight, *([] if bias is None else [bias])]
    if any(tensor not in constants for tensor in tensors):
        return False
    if any(value_of(tensor).dtype != torch.float32 for tensor in (x, *tensors)):
        return False
    out, of_group, *kernel = value_of(weight).shape
    if groups > 1:
        is_depthwise = of_group == 1 and out == groups
        return is_depthwise or out // groups % PANEL == 0
    is_product = max(*kernel, *stride) == 1 and not any(padding)
    return 2 * out >= PANEL and (not is_product or _is_better_packed(conv))


def _is_better_packed(product: Node) -> bool:
    """Of 1x1 kernels that multiply an image by a matrix: small ones over several pixels, that
    nothing follows which a generated product alone takes in, as activations."""
    batch, channels, *space = value_of(product).shape
    pixels, depth = batch * math.prod(space), value_of(product.args[0]).shape[1]
    return (
        isinstance(pixels, int)
        and pixels >= PANEL
        and pixels * channels * depth < _LARGE_PRODUCT
        and all(
            user.target in _TAKEN_IN or _bounds(user) is not None or user.op == "output"
            for user in product.users
        )
    )


def _pack(
    conv: Node, constants: ProgramConstants, arranged: dict[tuple[Node, Node | None], Node]
) -> None:
    args: Sequence[Any] = conv.args
    x, weight, bias, stride, padding, dilation, _, _, groups = args
    nodes, residual = [conv], None
    add = only_user(conv)
    if add is not None and (residual := added_to(conv, add)) is not None:
        nodes.append(add)
    bounds: Bounds = (None, None)
    clamp = only_user(nodes[-1])
    if clamp is not None and (found := _bounds(clamp)) is not None:
        bounds = found
        nodes.append(clamp)
    sides = [number for number in _pair(padding) for _ in range(2)]
    if (zeros := _zeros_around(x)) is not None:
        x = x.args[0]
        sides = [a + b for a, b in zip(sides, zeros, strict=True)]
    if (weight, bias) not in arranged:
        value = None if bias is None else constants.value(bias)
        arranged[weight, bias] = constants.add(
            weight, packed(constants.value(weight), value, groups)
        )
    out, _, *kernel = value_of(weight).shape
    last = nodes[-1]
    window = (out, kernel, _pair(stride), sides, _pair(dilation), groups, *bounds)
    with last.graph.inserting_before(last):
        call = last.graph.call_function(
            PACKED_CONVOLUTION, (x, arranged[weight, bias], residual, *window)
        )
    call.meta = dict(last.meta)
    last.replace_all_uses_with(call)
    padded = conv.args[0]
    for node in reversed(nodes):
        node.graph.erase_node(node)
    if isinstance(padded, Node) and padded is not x and not padded.users:
        padded.graph.erase_node(padded)
    call.name = last.name  # by which the signature knows an output


def _pair(numbers: Sequence[int]) -> list[int]:
    """For both dimensions; one holds for each."""
    return [*numbers, *numbers][:2]


def _bounds(node: Node) -> Bounds | None:
    """Of what `node` computes, if that is a clamp of its first argument to two numbers."""
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
    """Above, below, left and right, if `x` is an image with zeros that only one node reads."""
    if x.target is not _aten.constant_pad_nd.default or len(x.users) > 1:
        return None
    args: Sequence[Any] = x.args
    pad: list[int] = args[1]
    value = args[2] if len(args) > 2 else 0
    if value != 0 or not all(isinstance(number, int) for number in pad):
        return None
    left, right, above, below, *others = [*pad, *[0, 0, 0, 0][len(pad) :]]
    if any(others) or min(left, right, above, below) < 0:
        return None
    return above, below, left, right
