"""Folds a batch norm into the weights of the convolution before it.

    batch_norm(convolution(x, w, b), ...)    ==>    convolution(x, w * s, (b - mean) * s + shift)

with s = scale / sqrt(variance + eps), in float64, rounded once. All of these must be
constants of the model, and the convolution must have no other user. A batch norm in training mode
is another operator.
"""

import operator

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.backends.aoti.ops.convolution.convolution import CONVOLUTION
from pteron.backends.aoti.passes.program_constants import ProgramConstants

_BATCH_NORM = torch.ops.aten._native_batch_norm_legit_no_training.default


def fold_batch_norms(program: ExportedProgram) -> None:
    """Rewrites the program's graph, signature and constants."""
    constants = ProgramConstants(program)
    norms = program.graph.find_nodes(op="call_function", target=_BATCH_NORM)
    if any([_fold(norm, constants) for norm in norms]):
        constants.remove_unused()
        program.graph_module.recompile()


def _fold(norm: Node, constants: ProgramConstants) -> bool:
    conv, scale, shift, mean, variance, _, eps = norm.args
    if not isinstance(conv, Node) or conv.target is not CONVOLUTION or len(conv.users) > 1:
        return False
    x, weight, bias, *window = conv.args
    tensors = [weight, mean, variance, *(t for t in (scale, shift, bias) if t is not None)]
    if any(tensor not in constants for tensor in tensors):
        return False
    results = list(norm.users)
    if len(results) != 1 or results[0].target is not operator.getitem or results[0].args[1] != 0:
        return False
    dtype = conv.meta["val"].dtype
    if results[0].meta["val"].dtype != dtype:
        return False
    transposed, groups = window[3], window[5]
    assert isinstance(weight, Node) and isinstance(groups, int) and isinstance(eps, float)

    factor = torch.rsqrt(constants.value(variance).double() + eps)
    if scale is not None:
        factor = factor * constants.value(scale).double()
    offset = -constants.value(mean).double()
    if bias is not None:
        offset = offset + constants.value(bias).double()
    offset = offset * factor
    if shift is not None:
        offset = offset + constants.value(shift).double()
    taps = constants.value(weight).double()
    if transposed:  # (in channels, out channels of a group, ...)
        by_group = taps.unflatten(0, (groups, -1))
        factor = factor.view(groups, 1, -1, *[1] * (taps.dim() - 2))
        taps = (by_group * factor).flatten(0, 1)
    else:
        taps = taps * factor.view(-1, *[1] * (taps.dim() - 1))
    folded = [constants.add(weight, tensor.to(dtype)) for tensor in (taps, offset)]
    conv.args = (x, *folded, *window)
    (result,) = results
    result.replace_all_uses_with(conv)
    norm.graph.erase_node(result)
    norm.graph.erase_node(norm)
    conv.name = result.name  # which the signature of an output refers to
    return True
