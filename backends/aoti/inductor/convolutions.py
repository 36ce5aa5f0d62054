"""Lowers convolutions of the runtime in channels last."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from pteron.backends.aoti.inductor.patches import Context, together, wrapped
from pteron.backends.aoti.ops.convolution.convolution import (
    CONVOLUTION,
    FUSED_CONVOLUTION,
    PACKED_CONVOLUTION,
    WINOGRAD_CONVOLUTION,
)

_PACKED = (PACKED_CONVOLUTION, WINOGRAD_CONVOLUTION)


def lower_convolutions_channels_last() -> Context:
    """Fused convolutions are channels last. If Inductor decides on channels last for others, their
    constant weights are converted here rather than at each call."""

    def convert_weights(module: torch.fx.GraphModule, is_last: bool) -> bool:
        if is_last:
            for conv in module.graph.find_nodes(op="call_function", target=CONVOLUTION):
                _convert_weight(module, conv.args[1])
        return is_last

    return together(_layout_decided(convert_weights), with_lowering(FUSED_CONVOLUTION, _lower))


def _layout_decided(decide: Callable[[torch.fx.GraphModule, bool], bool]) -> Context:
    """`decide` gets Inductor's decision whether a graph is channels last, and has the last word."""
    from torch._inductor.graph import GraphLowering

    def decide_layout(decide_first: Any, module: torch.fx.GraphModule, **options: Any) -> bool:
        return decide(module, decide_first(module, **options))

    return wrapped(GraphLowering, "decide_layout_opt", decide_layout)


def _convert_weight(module: torch.fx.GraphModule, weight: torch.fx.Node) -> None:
    """Converts a 4D constant to channels last, in place, if only convolutions use it."""
    is_shared = any(user.target is not CONVOLUTION for user in weight.users)
    if weight.op != "get_attr" or weight.meta["val"].dim() != 4 or is_shared:
        return
    owner, _, name = str(weight.target).rpartition(".")
    holder = module.get_submodule(owner)
    value = getattr(holder, name)
    converted = value.detach().contiguous(memory_format=torch.channels_last)
    setattr(holder, name, torch.nn.Parameter(converted, requires_grad=False))
    weight.meta["val"] = weight.meta["val"].contiguous(memory_format=torch.channels_last)


def lower_packed_convolutions() -> Context:
    """Packed convolutions, and the operators between them, are channels last."""

    def decide(module: torch.fx.GraphModule, is_last: bool) -> bool:
        return is_last or any(
            module.graph.find_nodes(op="call_function", target=op) for op in _PACKED
        )

    lowered = (with_lowering(op, functools.partial(_lower_packed, op)) for op in _PACKED)
    return together(_layout_decided(decide), *lowered)


@contextlib.contextmanager
def with_lowering(op: torch._ops.OpOverload, lower: Callable[..., Any]) -> Iterator[None]:
    """Inside, Inductor lowers `op` by `lower`."""
    from torch._inductor import lowering

    lowering.lowerings[op] = lower
    # Operands with several users are computed once.
    lowering.needs_realized_inputs.add(op)
    try:
        yield
    finally:
        del lowering.lowerings[op]
        lowering.needs_realized_inputs.discard(op)


def _lower(x: Any, weight: Any, bias: Any, residual: Any, *window: Any) -> Any:
    residual = residual and _channels_last(residual)
    operands = _channels_last(x), _channels_last(weight), bias, residual
    return _call(FUSED_CONVOLUTION, *operands, *window)


def _lower_packed(
    op: torch._ops.OpOverload, x: Any, weight: Any, residual: Any, *window: Any
) -> Any:
    from torch._inductor import ir

    x.realize()
    _put_channels_inside(x)
    # The kernel itself transposes contiguous inputs of up to 4 channels, as it copies them.
    is_picture = ir.is_storage_and_layout(x) and x.get_layout().is_contiguous()
    if not is_picture or x.get_size()[1] > 4:
        x = _channels_last(x)
    return _call(op, x, weight, residual and _channels_last(residual), *window)


def _put_channels_inside(x: Any) -> None:
    """Stores the lines that are the image `x` of height 1, if nothing has decided on their layout,
    so that it is channels last."""
    from torch._inductor import ir

    if not isinstance(x.data, ir.BaseView):
        return
    stored: Any = x.data.unwrap_view()
    lines, (batch, channels, height, length) = stored.data, x.get_size()
    layout: Any = getattr(lines, "layout", None)
    if hasattr(layout, "as_stride_order") and height == 1:  # a flexible one
        if list(layout.size) == [batch, channels, length]:
            lines.freeze_layout_with_stride_order([2, 0, 1])


def _channels_last(operand: Any) -> Any:
    from torch._inductor import ir

    operand.realize()
    return ir.ExternKernel.require_channels_last(operand)


def _call(op: torch._ops.OpOverload, *arguments: Any) -> Any:
    from torch._inductor import ir

    return ir.TensorBox.create(ir.FallbackKernel.create(op, *arguments))
