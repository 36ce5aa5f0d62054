"""The runtime's operators for a convolution fused with its epilogue.

    relu(convolution(input, weight, bias) + residual)    ==>    fused_convolution(...)
    clamp(convolution(pad(input, padding), weight, bias) + residual, least, most)
                                                         ==>    packed_convolution(...)

The second one is the CPU's, 2D only; its weights are `packed`. `winograd_convolution` is the same
for kernels of 3 x 3, with `transformed` weights. Passes insert calls of them
(`passes.fuse_convolutions`, `backends/cpu/passes/pack_convolutions.py`). Their results are
channels last.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pteron.backends.aoti.ops.custom_operator import define

CONVOLUTION = torch.ops.aten.convolution.default

Ints = Sequence[int]


def _convolved(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Tensor:
    zeros = [0] * len(stride)
    return CONVOLUTION(input, weight, bias, stride, padding, dilation, False, zeros, groups)


def _shape(input: Tensor, weight: Tensor, bias: Any, residual: Any, *options: Any) -> Tensor:
    batch, channels, *space = _convolved(input, weight, None, *options[:-1]).shape
    return input.new_empty((batch, *space, channels)).movedim(-1, 1)


def _compute(
    input: Tensor, weight: Tensor, bias: Tensor | None, residual: Tensor | None, *options: Any
) -> Tensor:
    result = _convolved(input, weight, bias, *options[:-1])
    if residual is not None:
        result = result + residual
    result = result.relu() if options[-1] else result
    return result.movedim(1, -1).contiguous().movedim(-1, 1)


FUSED_CONVOLUTION = define(
    "fused_convolution(Tensor input, Tensor weight, Tensor? bias, Tensor? residual, int[] stride,"
    " int[] padding, int[] dilation, int groups, bool relu) -> Tensor",
    _shape,
    _compute,
)

#: Output channels of a panel of packed weights: one AVX-512 register, two of AVX2.
PANEL = 16


def packed(weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
    """Packs a weight, [out, in / groups, height, width], and a bias for `packed_convolution`.

    Panels of output channels, the last of a group padded with zeros; each is a row of biases, then
    a row for each kernel row, kernel column and input channel: [groups, panels, 1 + terms, PANEL].
    Depthwise, to less than PANEL / 2 channels for each: [1 + height * width, channels rounded up].
    """
    out, terms = weight.shape[0], weight[0].numel()
    rows = weight.permute(0, 2, 3, 1).reshape(out, terms)
    start = weight.new_zeros(out) if bias is None else bias
    rows = torch.cat([start[:, None], rows], 1)
    if _is_depthwise(weight, groups):
        return F.pad(rows, (0, 0, 0, -out % PANEL)).T.contiguous()
    rows = rows.view(groups, out // groups, 1 + terms)
    rows = F.pad(rows, (0, 0, 0, -(out // groups) % PANEL))
    return rows.view(groups, -1, PANEL, 1 + terms).transpose(2, 3).contiguous()


def _unpacked(
    weight: Tensor, out_channels: int, kernel: Ints, groups: int
) -> tuple[Tensor, Tensor]:
    """The weight and bias that `weight` was packed from."""
    if weight.dim() == 2:
        rows = weight.T[:out_channels]
    else:
        rows = weight.transpose(2, 3).flatten(1, 2)[:, : out_channels // groups].flatten(0, 1)
    return rows[:, 1:].unflatten(1, (*kernel, -1)).permute(0, 3, 1, 2), rows[:, 0]


def _is_depthwise(weight: Tensor, groups: int) -> bool:
    of_channel = weight.shape[0] // groups
    are_few = groups > 1 and 2 * of_channel < PANEL
    return weight.shape[1] == 1 and (of_channel == 1 or are_few)


def _packed_shape(
    input: Tensor,
    weight: Any,
    residual: Any,
    out_channels: int,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    *options: Any,
) -> Tensor:
    batch, _, *space = input.shape
    for d in range(2):
        room = space[d] + padding[2 * d] + padding[2 * d + 1] - dilation[d] * (kernel[d] - 1) - 1
        space[d] = room // stride[d] + 1
    return input.new_empty((batch, *space, out_channels)).movedim(-1, 1)


def _compute_packed(
    input: Tensor,
    weight: Tensor,
    residual: Tensor | None,
    out_channels: int,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    least: float | None,
    most: float | None,
) -> Tensor:
    taps, bias = _unpacked(weight, out_channels, kernel, groups)
    image = F.pad(input, [*padding[2:], *padding[:2]])
    result = _convolved(image, taps, bias, stride, [0, 0], dilation, groups)
    if residual is not None:
        result = result + residual
    if least is not None or most is not None:
        result = result.clamp(least, most)
    return result.movedim(1, -1).contiguous().movedim(-1, 1)


PACKED_CONVOLUTION = define(
    "packed_convolution(Tensor input, Tensor weight, Tensor? residual, int out_channels,"
    " int[] kernel, int[] stride, int[] padding, int[] dilation, int groups, float? least,"
    " float? most) -> Tensor",
    _packed_shape,
    _compute_packed,
)


def transformed(weight: Tensor) -> Tensor:
    """The kernels of 4 x 4 that Winograd's F(2 x 2, 3 x 3) multiplies with, of [..., 3, 3]: the
    outer terms, and half of the sum of all with the middle one's sign + and -."""
    for dim in (-2, -1):
        first, middle, last = weight.double().unbind(dim)
        outer = first + last
        weight = torch.stack([first, (outer + middle) / 2, (outer - middle) / 2, last], dim)
    return weight.float()


def _winograd_shape(
    input: Tensor, weight: Any, residual: Any, out_channels: int, padding: Ints, *bounds: Any
) -> Tensor:
    window = (out_channels, [3, 3], [1, 1], padding, [1, 1], 1)
    return _packed_shape(input, weight, residual, *window, *bounds)


def _compute_winograd(
    input: Tensor,
    weight: Tensor,
    residual: Tensor | None,
    out_channels: int,
    padding: Ints,
    *bounds: float | None,
) -> Tensor:
    taps, bias = _unpacked(weight, out_channels, (4, 4), 1)
    for dim in (-2, -1):
        first, plus, minus, last = taps.unbind(dim)
        taps = torch.stack([first, plus - minus, last], dim)
    window = (out_channels, [3, 3], [1, 1], padding, [1, 1], 1)
    return _compute_packed(input, packed(taps, bias, 1), residual, *window, *bounds)


WINOGRAD_CONVOLUTION = define(
    "winograd_convolution(Tensor input, Tensor weight, Tensor? residual, int out_channels,"
    " int[] padding, float? least, float? most) -> Tensor",
    _winograd_shape,
    _compute_winograd,
)
