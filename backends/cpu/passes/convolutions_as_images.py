"""Writes convolutions over the planes of a volume as convolutions of images.

    convolution(x, w, b, [1, s, s], [0, p, p], [1, d, d])    ==>    that of n * depth images

for x of [n, c, depth, height, width] and w of [out, c, 1, k, k].

Weights of images are packed while lowering (`pack_convolutions`), and their kernels are faster.
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
    program: ExportedProgram, has_packable_weights: Callable[[Node, ProgramConstants], bool]
) -> None:
    """Rewrites the program's graph, signature and constants."""
    constants = ProgramConstants(program)
    convolutions = program.graph.find_nodes(op="call_function", target=CONVOLUTION)
    changed = [
        _write(conv, constants)
        for conv in convolutions
        if _is_of_planes(conv) and has_packable_weights(conv, constants)
    ]
    if any(changed):
        constants.remove_unused()
        program.graph_module.recompile()


def _is_of_planes(conv: Node) -> bool:
    args: Sequence[Any] = conv.args
    x, weight, _, stride, padding, dilation, transposed, _, groups = args
    if transposed or groups != 1 or value_of(x).dim() != 5:
        return False
    depth, *kernel = value_of(weight).shape[2:]
    along = [sizes[0] for sizes in (stride, padding, dilation)]
    return depth == 1 and along == [1, 0, 1] and max(kernel) > 1


def _write(conv: Node, constants: ProgramConstants) -> bool:
    args: Sequence[Any] = conv.args
    x, weight, bias, *window, _, _, groups = args
    window = [[*sizes, *sizes][-2:] for sizes in window]
    kernel = constants.add(weight, constants.value(weight).squeeze(2))

    def of_images(x: torch.Tensor, *constants: torch.Tensor) -> torch.Tensor:
        w, b = (*constants, None)[:2]
        planes = x.transpose(1, 2).flatten(0, 1)
        y: torch.Tensor = CONVOLUTION(planes, w, b, *window, False, [0, 0], groups)
        return y.unflatten(0, (x.shape[0], -1)).transpose(1, 2)

    return replace_by_trace(conv, of_images, [x, kernel] if bias is None else [x, kernel, bias])
