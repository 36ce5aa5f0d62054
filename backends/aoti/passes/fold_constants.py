"""Computes while lowering what depends on no input and takes time at each call.

    convolution(x, v * (g / norm(v)))    ==>    convolution(x, weight)
    scores + table[index] + mask         ==>    scores + bias

A weight that is computed (weight and spectral normalization, merged adapters) becomes a constant,
which backends pack; so do relative position biases, masks of windows, and tables of rotary
embeddings. Not folded: what is only a view or a conversion of a constant, quantized weights, and
results that are larger than what they were computed from, except small ones.
"""

import math

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.backends.aoti.passes.constant_values import ConstantValues, is_computable
from pteron.backends.aoti.passes.program_constants import ProgramConstants
from pteron.exir.operators.decompositions import replace_node

_aten = torch.ops.aten

#: Fewer elements take no time that matters, and are literals in the code. More than the second
#: number only if a constant that they were computed from has as many.
_LEAST_NUMEL = 1 << 10
_SMALL_NUMEL = 1 << 20

#: Operators that take no time, or as much as reading their result would; beside views.
_CHEAP = {
    _aten.arange.default,
    _aten.arange.start,
    _aten.arange.start_step,
    _aten.clone.default,
    _aten.empty.memory_format,
    _aten.full.default,
    _aten.full_like.default,
    _aten.ones.default,
    _aten.scalar_tensor.default,
    _aten.zeros.default,
    _aten._to_copy.default,
    _aten.permute_copy.default,
    _aten.view_copy.default,
}

#: Integers of one byte are quantized weights, which stay packed; so do those of several bits.
_QUANTIZED = (torch.int8, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2)
_OF_BITS = (_aten.bitwise_and, _aten.bitwise_right_shift, _aten.__and__, _aten.__rshift__)


def fold_constants(program: ExportedProgram) -> None:
    """Rewrites the program's graph, signature and constants."""
    constants = ProgramConstants(program)
    #: Of each node that depends on no input: elements of the largest constant; None: not to fold.
    sources: dict[Node, int | None] = {}
    worthwhile: set[Node] = set()
    for node in program.graph.nodes:
        if node in constants:
            value = node.meta["val"]
            sources[node] = None if value.dtype in _QUANTIZED else value.numel()
        elif (
            is_computable(node)
            and node.target.namespace == "aten"
            and all(x in sources for x in node.all_input_nodes)
        ):
            numels = [sources[x] for x in node.all_input_nodes]
            is_packed = None in numels or node.target.overloadpacket in _OF_BITS
            sources[node] = None if is_packed else max([0, *(n for n in numels if n is not None)])
            is_cheap = node.target in _CHEAP or node.target.is_view
            if not is_cheap or worthwhile.intersection(node.all_input_nodes):
                worthwhile.add(node)
    ends = [n for n in sources if n in worthwhile and any(x not in sources for x in n.users)]
    outputs = program.graph.output_node().all_input_nodes  # the signature names them
    folded = [_fold(n, sources[n], constants) for n in ends if n not in outputs]
    if any(folded):
        program.graph.eliminate_dead_code()
        constants.remove_unused()
        program.graph_module.recompile()


def _fold(node: Node, source: int | None, constants: ProgramConstants) -> bool:
    fake = node.meta.get("val")
    if source is None or not isinstance(fake, torch.Tensor) or not fake.is_floating_point():
        return False
    if not all(isinstance(size, int) for size in fake.shape):
        return False
    numel = math.prod(fake.shape)
    if not _LEAST_NUMEL <= numel <= max(source, _SMALL_NUMEL):
        return False
    # Of one node at a time: what they are computed from is not kept.
    value = ConstantValues(constants).of(node)
    if value is None:
        return False
    replace_node(node, constants.add(node, value.to(fake.device)))
    return True
