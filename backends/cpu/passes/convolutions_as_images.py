"""Writes convolutions of lines and of volumes as convolutions of images.

    convolution(x, w, b, [s], [p], [d])    ==>    that of images of height 1

for x of [n, c, length], so that padding before it stays next to it, and

    convolution(x, w, b, [1, s, s], [0, p, p], [1, d, d])    ==>    that of n * depth images

for x of [n, c, depth, height, width] and w of [out, c, 1, k, k]. With a deeper kernel, the sum of
one for each plane of the kernel that meets some of x, for one volume, where that is worth while:

    convolution(planes, w[:, :, 1], b) + convolution(planes before, w[:, :, 0]) + ...

Weights of images are packed while lowering (`pack_convolutions`), which makes the sums parts of the
convolutions, and their kernels are faster.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.backends.aoti.ops.convolution.convolution import CONVOLUTION
from pteron.backends.aoti.passes.fuse_convolutions import value_of
from pteron.backends.aoti.passes.program_constants import ProgramConstants
from pteron.exir.operators.decompositions import replace_by_trace


def convolutions_as_images(
    program: ExportedProgram,
    has_packable_weights: Callable[[Node, ProgramConstants], bool],
    is_fast: Callable[[Node], bool],
) -> None:
    """Rewrites the program's graph, signature and constants. Kernels of several planes only where
    `is_fast` says that convolutions with one of them are."""
    constants = ProgramConstants(program)
    convolutions = program.graph.find_nodes(op="call_function", target=CONVOLUTION)
    changed = []
    for conv in convolutions:
        is_of_line = _is_of_line(conv)
        if (is_of_line or _is_of_planes(conv, is_fast)) and has_packable_weights(conv, constants):
            changed.append((_write_line if is_of_line else _write_planes)(conv, constants))
    if any(changed):
        constants.remove_unused()
        program.graph_module.recompile()


def _is_of_line(conv: Node) -> bool:
    args: Sequence[Any] = conv.args
    return value_of(args[0]).dim() == value_of(args[1]).dim() == 3 and not args[6]


def _write_line(conv: Node, constants: ProgramConstants) -> bool:
    args: Sequence[Any] = conv.args
    x, weight, bias, (stride,), (padding,), (dilation,), _, _, groups = args
    window = [1, stride], [0, padding], [1, dilation], False, [0, 0], groups
    image_weight = constants.add(weight, constants.value(weight).unsqueeze(2))
    zeros: list[int] = []
    if x.target is torch.ops.aten.constant_pad_nd.default and len(x.users) == 1:
        pads, value = x.args[1], (*x.args[2:], 0)[0]
        if len(pads) == 2 and value == 0:
            x, zeros = x.args[0], pads

    def of_image(x: torch.Tensor, w: torch.Tensor, *b: torch.Tensor) -> torch.Tensor:
        image = x.unsqueeze(2)
        if zeros:
            image = torch.ops.aten.constant_pad_nd.default(image, zeros, 0.0)
        y: torch.Tensor = CONVOLUTION(image, w, (*b, None)[0], *window)
        return y.squeeze(2)

    return replace_by_trace(conv, of_image, [x, image_weight, *([] if bias is None else [bias])])


def _is_of_planes(conv: Node, is_fast: Callable[[Node], bool]) -> bool:
    args: Sequence[Any] = conv.args
    x, weight, _, stride, padding, dilation, transposed, _, groups = args
    if transposed or groups != 1 or value_of(x).dim() != 5:
        return False
    depth, *kernel = value_of(weight).shape[2:]
    if max(kernel) == 1:
        return False
    along = [sizes[0] for sizes in (stride, padding, dilation)]
    if depth == 1 and along == [1, 0, 1]:
        return True
    # Planes of one volume are neighbours; of several, each plane of the kernel would copy them.
    batch, _, planes = value_of(x).shape[:3]
    return batch == 1 and isinstance(planes, int) and is_fast(conv)


def _write_planes(conv: Node, constants: ProgramConstants) -> bool:
    args: Sequence[Any] = conv.args
    x, weight, bias, *window, _, _, groups = args
    stride, padding, dilation = ([*sizes, *sizes, *sizes][:3] for sizes in window)
    value = constants.value(weight)
    depth, planes_out = value_of(x).shape[2], value_of(conv).shape[2]
    inside = [
        z
        for z in range(value.shape[2])
        if value.shape[2] == 1
        or any(0 <= z * dilation[0] - padding[0] + i * stride[0] < depth for i in range(planes_out))
    ]
    inside = inside or [0]
    kernels = [constants.add(weight, value[:, :, z]) for z in inside]
    of_image = stride[1:], padding[1:], dilation[1:], False, [0, 0], groups
    is_whole = planes_out == depth and len(kernels) == 1 and not padding[0]

    def of_images(x: torch.Tensor, *constants: torch.Tensor) -> torch.Tensor:
        weights, b = constants[: len(kernels)], (*constants, None)[len(kernels)]
        planes = x.transpose(1, 2).flatten(0, 1)
        if padding[0]:
            zeros = torch.full((padding[0], *planes.shape[1:]), 0.0, dtype=x.dtype)
            planes = torch.cat([zeros, planes, zeros])
        total = None
        for z, w in zip(inside, weights, strict=True):
            first = z * dilation[0]
            reach = (planes_out - 1) * stride[0] + 1
            part = planes if is_whole else planes[first : first + reach : stride[0]]
            y: torch.Tensor = CONVOLUTION(part, w, b if total is None else None, *of_image)
            total = y if total is None else y + total
        assert total is not None
        return total.unflatten(0, (x.shape[0], -1)).transpose(1, 2)

    return replace_by_trace(conv, of_images, [x, *kernels, *([] if bias is None else [bias])])
