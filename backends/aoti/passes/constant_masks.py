"""Removes constant masks of attention: all-true, causal, or padding of the keys.

    attention(q, k, v, mask all true or zero)       ==>    attention(q, k, v)
    attention(q, k, v, lower triangular mask)       ==>    attention(q, k, v, is_causal=True)
    attention(q, k, v, mask of the first 96 keys)   ==>    attention(q, k[:96], v[:96])

Models compute such masks from sequence lengths, which are static in an exported program. Kernels
then read no mask, and none of the keys that it excludes.
"""

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.backends.aoti.ops.attention.attention import WHOLE
from pteron.backends.aoti.passes.attention import unrepeated
from pteron.backends.aoti.passes.constant_values import ConstantValues
from pteron.backends.aoti.passes.program_constants import ProgramConstants
from pteron.exir.operators.decompositions import insert_trace


def remove_constant_masks(program: ExportedProgram) -> None:
    """Rewrites the program's graph; nodes that computed a mask are removed."""
    constants = ProgramConstants(program)
    values = ConstantValues(constants)
    changed = False
    for target in WHOLE:
        for node in program.graph.find_nodes(op="call_function", target=target):
            changed |= _remove(node, values)
    if changed:
        program.graph.eliminate_dead_code()
        constants.remove_unused()
        program.graph_module.recompile()


def _remove(node: Node, values: ConstantValues) -> bool:
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    (name,) = {"attn_mask", "attn_bias"}.intersection(names) or {""}
    mask = given.get(name)
    if not isinstance(mask, Node) or given.get("is_causal", False):
        return False
    value = values.of(mask)
    allowed = None if value is None else _allowed(value)
    if allowed is None or allowed.dim() < 2:
        return False
    queries, keys = (given[x].meta["val"].shape[-2] for x in ("query", "key"))
    if not isinstance(queries, int) or not isinstance(keys, int):
        return False
    allowed = allowed.expand(*allowed.shape[:-2], queries, keys)
    first, end = 0, keys
    # Keys that are repeated for groups of heads are read unrepeated: no slice of them.
    if unrepeated(given["key"]) is None:
        seen = allowed.flatten(0, -2).any(0).nonzero()
        if not len(seen):
            return False
        first, end = int(seen[0]), int(seen[-1]) + 1
        allowed = allowed[..., first:end]
    is_causal = not bool(allowed.all())
    if is_causal and not bool((allowed == torch.ones_like(allowed).tril()).all()):
        return False
    if end - first < keys:
        for x in ("key", "value"):
            given[x] = insert_trace(node, lambda t: t[..., first:end, :], [given[x]])
    node.args = tuple(given.pop(x) for x in names[:3])
    node.kwargs = {**given, name: None, "is_causal": is_causal}
    return True


def _allowed(mask: torch.Tensor) -> torch.Tensor | None:
    """The mask as bool, if it only includes and excludes keys."""
    if mask.dtype == torch.bool:
        return mask
    if not mask.is_floating_point():
        return None
    through = mask == 0
    # Models use finfo.min for -inf.
    return through if bool((through | (mask <= torch.finfo(mask.dtype).min)).all()) else None
