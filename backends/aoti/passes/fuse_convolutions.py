"""Fuses a convolution with its epilogue: bias, residual and ReLU.

    relu(convolution(x, w, b) + y)    ==>    fused_convolution(x, w, b, y, ..., relu=True)

For devices whose library has fused kernels; the epilogue then needs no pass over the result.
Weights become channels last, as such libraries require.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from pteron.backends.aoti.ops.convolution.convolution import (
    CONVOLUTION,
    FUSED_CONVOLUTION,
    PACKED_CONVOLUTION,
    WINOGRAD_CONVOLUTION,
)
from pteron.backends.aoti.passes.program_constants import ProgramConstants

_aten = torch.ops.aten

#: Input channels are padded to these: libraries have kernels for multiples of 4 and 8.
_PADDED_CHANNELS = {3: 4, 5: 8, 6: 8, 7: 8}


def fuse_convolutions(program: ExportedProgram, choose: Callable[[Node], bool]) -> None:
    """Rewrites the program's graph, signature and constants.

    Fuses 2D convolutions, not transposed, that `choose` accepts and that have an epilogue.
    """
    constants = ProgramConstants(program)
    convolutions = program.graph.find_nodes(op="call_function", target=CONVOLUTION)
    if any([is_conv2d(conv) and choose(conv) and _fuse(conv, constants) for conv in convolutions]):
        constants.remove_unused()
        program.graph_module.recompile()


def has_fused_convolutions(graph_module: GraphModule) -> bool:
    """Whether there are calls of the runtime's convolutions, fused or packed."""
    return any(
        graph_module.graph.find_nodes(op="call_function", target=target)
        for target in (FUSED_CONVOLUTION, PACKED_CONVOLUTION, WINOGRAD_CONVOLUTION)
    )


def is_conv2d(conv: Node) -> bool:
    """Whether it is a batched 2D convolution, not transposed."""
    return all(value_of(operand).dim() == 4 for operand in conv.args[:2]) and not conv.args[6]


def value_of(node: object) -> torch.Tensor:
    assert isinstance(node, Node)
    value: torch.Tensor = node.meta["val"]
    return value


def _fuse(conv: Node, constants: ProgramConstants) -> bool:
    x, weight, bias, stride, padding, dilation, _, _, groups = conv.args
    assert isinstance(x, Node) and isinstance(weight, Node)
    nodes, residual = [conv], None
    add = only_user(conv)
    if add is not None and (residual := residual_of(conv, add)) is not None:
        nodes.append(add)
    relu = only_user(nodes[-1])
    has_relu = relu is not None and relu.target is _aten.relu.default
    if relu is not None and has_relu:
        nodes.append(relu)
    if bias is None and len(nodes) == 1:
        return False
    last = nodes[-1]
    with last.graph.inserting_before(last):
        if weight in constants:
            x, weight = _channels_last(x, weight, constants, may_pad=bool(groups == 1))
        window = (stride, padding, dilation, groups, has_relu)
        fused = last.graph.call_function(FUSED_CONVOLUTION, (x, weight, bias, residual, *window))
    fused.meta = dict(last.meta)
    last.replace_all_uses_with(fused)
    for node in reversed(nodes):
        node.graph.erase_node(node)
    fused.name = last.name  # which the signature of an output refers to
    return True


def only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def residual_of(conv: Node, add: Node) -> Node | None:
    """The other operand of `add`, if it is a tensor of the same sizes and dtype."""
    if add.target is not _aten.add.Tensor or add.kwargs.get("alpha", 1) != 1:
        return None
    first, second = add.args
    other = second if first is conv else first
    if not isinstance(other, Node) or other is conv:
        return None
    mine, its = value_of(conv), other.meta.get("val")
    if not isinstance(its, torch.Tensor) or its.dtype != mine.dtype or its.dim() != mine.dim():
        return None
    is_like = all(statically_known_true(a == b) for a, b in zip(its.shape, mine.shape, strict=True))
    return other if is_like else None


def _channels_last(
    x: Node, weight: Node, constants: ProgramConstants, *, may_pad: bool
) -> tuple[Node, Node]:
    taps = constants.value(weight)
    channels = taps.shape[1]
    if may_pad and (pack := _PADDED_CHANNELS.get(channels)):
        image, more = value_of(x), [0, 0, 0, 0, 0, pack - channels]
        taps = F.pad(taps, more)
        x = x.graph.call_function(_aten.constant_pad_nd.default, (x, more, 0.0))
        x.meta["val"] = image.new_empty((image.shape[0], pack, *image.shape[2:]))
    taps = taps.contiguous(memory_format=torch.channels_last)
    return x, constants.add(weight, taps)
