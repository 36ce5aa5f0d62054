"""`flex_attention` on the CPU as matmuls and a softmax.

Inductor's kernel for the CPU calls functions of libtorch, and retracing the operator fails where
its score function reads a parameter. On other devices it stays, for Inductor's template.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree

from pteron.exir.graph.exported_program import copy_program
from pteron.exir.operators.decompositions import replace_by_trace


def decompose_flex_attention(program: ExportedProgram) -> ExportedProgram:
    """The program with dense attention where `flex_attention` is computed on the CPU."""
    if not any(map(_is_on_cpu, program.graph.nodes)):
        return program
    program = copy_program(program)
    for node in list(program.graph.nodes):
        if _is_on_cpu(node):
            _decompose(node)
    program.graph.eliminate_dead_code(_has_effect)
    program.graph_module.recompile()
    return copy_program(program)


def _has_effect(node: Node) -> bool:
    """Not so those of the block mask that torch makes in the model, with vmap's own functions."""
    if node.target is torch.ops.aten._assert_tensor_metadata.default:
        return False  # export has checked it
    if node.target is torch.ops.aten.index_put_.default:
        written: Any = node.args[0]
        # A later read keeps it; one for an argument of this call does not.
        readers = written.users.keys() - {node, *node.all_input_nodes}
        return written.op == "placeholder" or bool(readers)
    return bool(node.is_impure())


def _is_on_cpu(node: Node) -> bool:
    if str(node.target) != "flex_attention":
        return False
    query: Any = node.args[0]
    return bool(query.meta["val"].device.type == "cpu")


def _decompose(node: Node) -> None:
    leaves, spec = pytree.tree_flatten(node.args)
    inputs = [x for x in dict.fromkeys(leaves) if isinstance(x, Node) and x.op != "get_attr"]

    def run(*values: Any) -> Any:
        by_node = dict(zip(inputs, values, strict=True))
        given = [
            by_node[leaf] if leaf in by_node else _attribute(leaf) if _is_node(leaf) else leaf
            for leaf in leaves
        ]
        return _attention(*pytree.tree_unflatten(given, spec))

    replaced = replace_by_trace(node, run, inputs)
    assert replaced, f"{node}: its score function creates constants"


def _is_node(value: Any) -> bool:
    return isinstance(value, Node)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable[..., torch.Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    options: Any,
    score_buffers: Sequence[Any] = (),
    mask_buffers: Sequence[Any] = (),
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The operator's three results; the last two are in units of log(2)."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    from torch.nn.attention.flex_attention import _vmap_for_bhqkv

    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    batch, heads = query.shape[:2]
    key, value = (
        x.unsqueeze(2)
        .expand(batch, x.shape[1], heads // x.shape[1], *x.shape[2:])
        .reshape(batch, heads, *x.shape[2:])
        for x in (key, value)
    )
    scores = query.to(wide) @ key.to(wide).mT * scale
    places = [torch.arange(size, device=query.device) for size in scores.shape]
    score = _vmap_for_bhqkv(score_mod, prefix=(0,), suffix=(None,) * len(score_buffers))
    mask = _vmap_for_bhqkv(block_mask[-1], prefix=(), suffix=(None,) * len(mask_buffers))
    with TransformGetItemToIndex():
        allowed = mask(*places, *mask_buffers)
        scores = score(scores, *places, *score_buffers)
    scores = scores.to(wide).masked_fill(~allowed, -math.inf)
    greatest = scores.amax(-1)
    is_empty = greatest == -math.inf
    shifted = (scores - greatest.masked_fill(is_empty, 0).unsqueeze(-1)).exp()
    total = shifted.sum(-1)
    weights = shifted / total.masked_fill(is_empty, 1).unsqueeze(-1)
    logsumexp = (greatest + total.log()).masked_fill(is_empty, -math.inf)
    out = weights.to(query.dtype) @ value.to(query.dtype)
    return out, logsumexp / math.log(2), greatest / math.log(2)


def _attribute(node: Node) -> Any:
    value: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        value = getattr(value, name, None)
    return value
