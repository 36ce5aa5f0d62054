"""Convolutions in the layout that GPUs want."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from pteron.backends.aoti.convolution import CONVOLUTION, FUSED_CONVOLUTION
from pteron.backends.aoti.inductor.patched import patched


@contextlib.contextmanager
def convolutions_channels_last() -> Iterator[None]:
    """Fused convolutions read and write images channels last, and the weights of those that
    Inductor decides to lay out so are constants in that layout, rather than copied at each call."""
    from torch._inductor import lowering
    from torch._inductor.graph import GraphLowering

    decide = GraphLowering.decide_layout_opt

    @functools.wraps(decide)
    def decide_and_lay_out(module: torch.fx.GraphModule, **options: Any) -> bool:
        is_last = decide(module, **options)
        if is_last:
            for conv in module.graph.find_nodes(op="call_function", target=CONVOLUTION):
                _lay_out(module, conv.args[1])
        return is_last

    with (
        patched(GraphLowering, "decide_layout_opt", staticmethod(decide_and_lay_out)),
        _with_lowering(lowering),
    ):
        yield


def _lay_out(module: torch.fx.GraphModule, weight: torch.fx.Node) -> None:
    """A constant of four dimensions, in place, if only convolutions read it."""
    if weight.op != "get_attr" or weight.meta["val"].dim() != 4:
        return
    if any(user.target is not CONVOLUTION for user in weight.users):
        return
    owner, _, name = str(weight.target).rpartition(".")
    holder = module.get_submodule(owner)
    value = getattr(holder, name)
    laid_out = value.detach().contiguous(memory_format=torch.channels_last)
    setattr(holder, name, torch.nn.Parameter(laid_out, requires_grad=False))
    weight.meta["val"] = weight.meta["val"].contiguous(memory_format=torch.channels_last)


@contextlib.contextmanager
def _with_lowering(lowering: Any) -> Iterator[None]:
    lowering.lowerings[FUSED_CONVOLUTION] = _lower
    # What several read is computed once.
    lowering.needs_realized_inputs.add(FUSED_CONVOLUTION)
    try:
        yield
    finally:
        del lowering.lowerings[FUSED_CONVOLUTION]
        lowering.needs_realized_inputs.discard(FUSED_CONVOLUTION)


def _lower(x: Any, weight: Any, bias: Any, residual: Any, *window: Any) -> Any:
    from torch._inductor import ir

    def laid_out(operand: Any) -> Any:
        operand.realize()
        return ir.ExternKernel.require_channels_last(operand)

    operands = laid_out(x), laid_out(weight), bias, residual and laid_out(residual)
    return ir.TensorBox.create(ir.FallbackKernel.create(FUSED_CONVOLUTION, *operands, *window))
