"""Lowers recurrent layers (LSTM, GRU, RNN), which partitioners do not decompose.

    lstm(%x, ...)    ==>    of each layer and direction: linear(%x, ...) of all steps at once, and
                            recurrent_steps(...), one call of the runtime, or a loop (scan)

The code does not depend on the number of steps, which may be dynamic. The runtime computes float16
and bfloat16 in float32.
"""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch._decomp.decompositions import _rnn_helper, gather_params
from torch._higher_order_ops.scan import scan_op
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from pteron.backends.aoti.ops.recurrent.recurrent import RECURRENT_STEPS, step
from pteron.exir.operators.decompositions import replace_call
from pteron.exir.operators.recurrent_layers import RECURRENT_LAYERS

#: Devices without the call that have loops.
LOOPS = frozenset({"cuda"})
#: There, so many static steps are unrolled.
UNROLLED_STEPS = 32


def has_recurrent_steps(device: str, shims: Collection[str]) -> bool:
    """Whether the runtime of `device`, with these C functions, has the call."""
    return f"aoti_torch_{device}_recurrent_steps" in shims


def whole_layers(program: ExportedProgram, device: str, shims: Collection[str]) -> set[OpOverload]:
    """The operators of recurrent layers that are not decomposed until the backend gets them."""
    if has_recurrent_steps(device, shims):
        return set(RECURRENT_LAYERS)
    if device not in LOOPS:
        return set()
    return {
        node.target
        for module in program.graph_module.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
        if node.target in RECURRENT_LAYERS and _has_many_steps(node)
    }


def _has_many_steps(node: Node) -> bool:
    """Whether a layer has a dynamic number of steps, or many."""
    arguments: Any = node.args
    steps = arguments[0].meta["val"].shape[1 if arguments[-1] else 0]
    return not isinstance(steps, int) or steps > UNROLLED_STEPS


class RecurrentPass(PassBase):
    """See the module's docstring. Branches are rewritten, too.

    Args:
        is_loop: instead of the call.
    """

    def __init__(self, is_loop: bool = False) -> None:
        super().__init__()
        self._steps: Callable[..., Any] = _by_scan if is_loop else _by_runtime

    def call(self, graph_module: GraphModule) -> PassResult:
        modified = False
        for module in list(graph_module.modules()):
            if not isinstance(module, GraphModule):
                continue
            for op, kind in RECURRENT_LAYERS.items():
                for node in module.graph.find_nodes(op="call_function", target=op):
                    modified |= replace_call(node, functools.partial(_layers, kind, self._steps))
            module.recompile()
        return PassResult(graph_module, modified)


def _layers(
    kind: str,
    steps: Callable[..., Any],
    input: torch.Tensor,
    hx: torch.Tensor | Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    *options: Any,
) -> tuple[torch.Tensor, ...]:
    """All layers and directions, with the arguments of torch's operators."""
    states = [hx] if isinstance(hx, torch.Tensor) else hx
    projects = kind == "lstm" and states[0].shape[2] != states[1].shape[2]
    helper: Any = _rnn_helper
    out, last = helper(
        input,
        list(zip(*(state.unbind(0) for state in states), strict=True)),
        gather_params(params, has_biases, projects),
        has_biases,
        num_layers,
        *options,
        functools.partial(_layer, kind, steps),
    )
    return out, *(torch.stack(state) for state in zip(*last, strict=True))


def _layer(
    kind: str,
    steps: Callable[..., Any],
    x: torch.Tensor,
    state: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    has_biases: bool,
    reverse: bool = False,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """One direction of one layer, of all steps: [steps, batch, size]."""
    input_weight, weight, *more = weights
    input_bias, bias, *rest = more if has_biases else (None, None, *more)
    gates = F.linear(x, input_weight, input_bias)
    operands = (gates, weight, bias, rest[0] if rest else None, *state, None)[:6]
    out, c = steps(*operands, kind, reverse)
    return out, [out[0] if reverse else out[-1], c][: len(state)]


def _by_runtime(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    *operands, kind, reverse = arguments
    narrow = operands[0].dtype
    dtype = torch.promote_types(narrow, torch.float32)
    wide = (each if each is None else each.to(dtype) for each in operands)
    out, c = RECURRENT_STEPS(*wide, kind, reverse)
    return out.to(narrow), c.to(narrow)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _by_scan(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    projection: torch.Tensor | None,
    hx: torch.Tensor,
    cx: torch.Tensor | None,
    kind: str,
    reverse: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`recurrent_steps` as a loop, which Inductor compiles."""
    weights = (weight, bias, projection)
    # torch takes no operands that share a storage, as weights do in the one that cuDNN wants.
    given: list[torch.Tensor] = []
    for each in weights:
        if each is not None:
            shared = any(_storage(each) == _storage(other) for other in given)
            given.append(each.clone() if shared else each)
    state = [hx] if cx is None else [hx, cx]

    def body(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = iter(operands)
        h, c = next(values), next(values) if cx is not None else hx
        x = next(values)
        operand_of: list[Any] = [w if w is None else next(values) for w in weights]
        h, c = step(kind, x, h, c, *operand_of)
        return (h, h.clone()) if cx is None else (h, c, h.clone())

    # A dynamic batch is an operand of the loop.
    sizes = [size for size in input.shape[1:2] if isinstance(size, torch.SymInt)]
    steps = input.flip(0) if reverse else input
    with torch.no_grad():  # or it also computes what gradients need
        *last, out = scan_op(body, state, [steps], (*given, *sizes))
    return out.flip(0) if reverse else out, last[-1]
