"""The operator that the runtime has for a convolution with what follows it.

    relu(convolution(input, weight, bias) + residual)    ==>    fused_convolution(...)

Passes make calls of it (`passes.fuse_convolutions`). Its result lies in memory channels last.
"""

from collections.abc import Sequence

import torch

_aten = torch.ops.aten
CONVOLUTION = _aten.convolution.default

_library = torch.library.Library("pteron", "FRAGMENT")
_library.define(
    "fused_convolution(Tensor input, Tensor weight, Tensor? bias, Tensor? residual, int[] stride,"
    " int[] padding, int[] dilation, int groups, bool relu) -> Tensor"
)


def _shape(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    relu: bool,
) -> torch.Tensor:
    zeros = [0] * len(stride)
    plain = CONVOLUTION(input, weight, None, stride, padding, dilation, False, zeros, groups)
    batch, channels, *space = plain.shape
    return input.new_empty((batch, *space, channels)).movedim(-1, 1)


def _compute(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    relu: bool,
) -> torch.Tensor:
    zeros = [0] * len(stride)
    result = CONVOLUTION(input, weight, bias, stride, padding, dilation, False, zeros, groups)
    if residual is not None:
        result = result + residual
    result = result.relu() if relu else result
    return result.movedim(1, -1).contiguous().movedim(-1, 1)


torch.library.register_fake("pteron::fused_convolution", _shape, lib=_library)
_library.impl("fused_convolution", _compute, "CompositeExplicitAutograd")

FUSED_CONVOLUTION: torch._ops.OpOverload = torch.ops.pteron.fused_convolution.default
