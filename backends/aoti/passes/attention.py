"""Chooses implementations of scaled_dot_product_attention, which partitioners do not decompose.

WholeAttentionPass()     flash, cuDNN and other variants    ==>    scaled_dot_product_attention
AttentionPass(choose)    scaled_dot_product_attention    ==>    a runtime call or flex_attention

Each implementation has output strides of its own; users of the result get the traced ones.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from pteron.backends.aoti.ops.attention.attention import (
    ATTENTION,
    RUNTIME_ATTENTION,
    WHOLE,
    Attention,
)
from pteron.exir.operators.decompositions import insert_trace, replace_by_trace

Choice: TypeAlias = Literal["library", "flex", "products"]

#: Largest head dimension of the runtime's kernels.
MAX_HEAD_DIM = 256
RUNTIME_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


# Queries and keys of a block of a flex_attention block mask.
_BLOCK = 128

#: Kernel options as of torch.nn.attention.flex_attention, for inference.
_FLEX = {
    "BACKEND": "AUTO",
    "PRESCALE_QK": False,
    "ROWS_GUARANTEED_SAFE": False,
    "BLOCKS_ARE_CONTIGUOUS": False,
    "WRITE_DQ": False,
    "OUTPUT_LOGSUMEXP": False,
    "OUTPUT_MAX": False,
}


class WholeAttentionPass(PassBase):
    """Replaces flash, cuDNN and other variants whose only used output is the result."""

    def call(self, graph_module: GraphModule) -> PassResult:
        changed = False
        for node in list(_calls(graph_module)):
            if node.target is ATTENTION:
                continue
            used = [user for user in node.users if user.users]
            if any(user.target is not operator.getitem or user.args[1] != 0 for user in used):
                continue
            call = Attention.of(node)
            with node.graph.inserting_before(node):
                whole = node.graph.call_function(
                    ATTENTION,
                    (call.query, call.key, call.value),
                    {
                        "attn_mask": call.mask,
                        "dropout_p": call.dropout_p,
                        "is_causal": call.is_causal,
                        "scale": call.scale,
                        "enable_gqa": True,  # these variants infer it from the sizes
                    },
                )
            whole.meta = dict(node.meta)
            whole.meta["val"] = node.meta["val"][0]
            for user in list(node.users):
                user.replace_all_uses_with(whole)
                node.graph.erase_node(user)
            node.graph.erase_node(node)
            changed = True
        return PassResult(graph_module, changed)


class AttentionPass(PassBase):
    """Replaces attention by the implementation that `choose` returns for each call.

    "library": one call of the runtime. "flex": `flex_attention`, which Inductor compiles; the block
    mask of a bool mask is computed once for all calls that share it. Calls that neither supports
    stay, and so do those to be "products": Inductor decomposes them.
    """

    def __init__(self, choose: Callable[[Attention], Choice]) -> None:
        super().__init__()
        self._choose = choose
        self._masks: dict[tuple[Node, torch.dtype], Node] = {}
        self._blocks: dict[tuple[Node, int, int], list[Node]] = {}

    def call(self, graph_module: GraphModule) -> PassResult:
        changed = False
        for node in list(_calls(graph_module)):
            if node.target is not ATTENTION:
                continue
            call = Attention.of(node)
            choice = self._choose(call) if is_for_runtime(call) else "products"
            if choice == "products" or not self._replace(node, call, choice):
                _keep_layout(node)
            changed = True
        if changed:
            graph_module.graph.eliminate_dead_code()
            graph_module.recompile()
        return PassResult(graph_module, changed)

    def _replace(self, node: Node, call: Attention, choice: Choice) -> bool:
        once = unrepeated(call.key), unrepeated(call.value)
        key, value = once if all(once) else (call.key, call.value)
        assert key is not None and value is not None
        inputs = [call.query, key, value]
        if call.mask is not None and choice == "flex" and has_blocks(call):
            inputs += [call.mask, *self._block_lists(call.mask, node, call)]
        elif call.mask is not None:
            inputs.append(self._additive_mask(call.mask, node, call.query.meta["val"].dtype))
        scale = call.scale if call.scale is not None else float(_head_dim(call.query)) ** -0.5
        traced = node.meta["val"]
        compute = _by_library if choice == "library" else _by_flex

        def run(*operands: torch.Tensor) -> torch.Tensor:
            q, k, v, *masks = operands
            mask = masks[0] if masks else None
            rank = q.dim()
            if rank == 3:  # without heads
                q, k, v = (x.unsqueeze(1) for x in (q, k, v))
                mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask
            out = compute(q, k, v, mask, call.is_causal, scale, masks[1:])
            out = out.squeeze(1) if rank == 3 else out
            return _with_strides_of(traced, out)

        return replace_by_trace(node, run, inputs)

    def _additive_mask(self, mask: Node, before: Node, dtype: torch.dtype) -> Node:
        """The mask as an additive one of `dtype`; one node for all calls that share the mask."""
        value = mask.meta["val"]
        if value.dtype == dtype:
            return mask
        if (mask, dtype) not in self._masks:
            made = insert_trace(before, functools.partial(_to_additive, dtype=dtype), [mask])
            assert isinstance(made, Node)
            self._masks[mask, dtype] = made
        return self._masks[mask, dtype]

    def _block_lists(self, mask: Node, before: Node, call: Attention) -> list[Node]:
        """The block mask of a bool mask; the same nodes for all calls that share it."""
        sizes = call.query.meta["val"].shape[-2], call.key.meta["val"].shape[-2]
        if (mask, *sizes) not in self._blocks:
            find = functools.partial(blocks_of, queries=sizes[0], keys=sizes[1])
            made = insert_trace(before, find, [mask])
            assert isinstance(made, list)
            self._blocks[mask, *sizes] = made
        return self._blocks[mask, *sizes]


def has_blocks(call: Attention) -> bool:
    """Whether its mask is bool and the same for all batches and heads.

    Not a mask for each batch: Inductor may change the stride of a dimension of size 1, with which
    flex_attention's kernels index the block mask by batch and head.
    """
    query, key = call.query.meta["val"], call.key.meta["val"]
    mask = call.mask.meta["val"] if call.mask is not None else None
    sizes = query.shape[-2], key.shape[-2]
    return (
        mask is not None
        and mask.dtype == torch.bool
        and query.dim() == 4
        and all(isinstance(size, int) and size >= _BLOCK for size in sizes)
        and mask.numel() == sizes[0] * sizes[1]
    )


def blocks_of(mask: torch.Tensor, *, queries: int, keys: int) -> tuple[torch.Tensor, ...]:
    """kv_num_blocks, kv_indices, full_kv_num_blocks and full_kv_indices of a `BlockMask`."""
    rows, columns = (-(-size // _BLOCK) for size in (queries, keys))
    padded = F.pad(mask, (0, columns * _BLOCK - keys, 0, rows * _BLOCK - queries))
    blocks = padded.reshape(1, 1, rows, _BLOCK, columns, _BLOCK)
    counts = blocks.sum((3, 5))
    whole = counts == _BLOCK * _BLOCK
    lists: list[torch.Tensor] = []
    for kind in ((counts > 0) & ~whole, whole):
        order = kind.to(torch.int32).argsort(stable=True, dim=-1, descending=True)
        lists += [kind.sum(-1, dtype=torch.int32), order.to(torch.int32)]
    return tuple(lists)


def _to_additive(mask: torch.Tensor, *, dtype: torch.dtype) -> torch.Tensor:
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask.logical_not(), float("-inf"))


def _keep_layout(node: Node) -> None:
    """Inductor's decomposition is row-major; users of the result get the traced strides."""
    traced = node.meta["val"]
    if _has_strides(traced, _row_major(traced)):
        return
    with traced.fake_mode:
        node.meta["val"] = torch.empty_like(traced, memory_format=torch.contiguous_format)
    users = list(node.users)
    made = insert_trace(node.next, functools.partial(_with_strides_of, traced), [node])
    assert isinstance(made, Node)
    for user in users:
        user.replace_input_with(node, made)
    if any(user.op == "output" for user in users):
        made.name, node.name = node.name, f"{node.name}_row_major"


def _with_strides_of(like: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` with the strides of `like`: [batch, query, head, dim] in memory, or row-major."""
    if _has_strides(tensor, like.stride()):
        return tensor
    if tensor.dim() == 4 and not _has_strides(like, _row_major(like)):
        return tensor.transpose(1, 2).contiguous().transpose(1, 2)
    return tensor.contiguous()


def _row_major(tensor: torch.Tensor) -> list[Any]:
    strides: list[Any] = [1]
    for size in reversed(tensor.shape[1:]):
        strides.insert(0, strides[0] * size)
    return strides


def _has_strides(tensor: torch.Tensor, strides: Sequence[Any]) -> bool:
    """Whether the strides are statically known to be equal, except in dimensions of size 1."""
    with disable_proxy_modes_tracing():  # sizes from outside of the trace are not tracked in it
        return all(
            (isinstance(size, int) and size == 1) or statically_known_true(x == y)
            for size, x, y in zip(tensor.shape, tensor.stride(), strides, strict=True)
        )


def has_attention(graph_module: GraphModule) -> bool:
    """Whether there is any, before or after `AttentionPass`."""
    kinds = {*WHOLE, RUNTIME_ATTENTION, torch.ops.higher_order.flex_attention}
    return any(
        node.target in kinds
        for module in graph_module.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
    )


def is_for_runtime(call: Attention) -> bool:
    """Whether the runtime's operator supports it: static head dimensions, no dropout, dtypes."""
    q, k, v = (node.meta["val"] for node in (call.query, call.key, call.value))
    mask = call.mask.meta["val"] if call.mask is not None else None
    return (
        call.dropout_p == 0
        and q.dtype in RUNTIME_DTYPES
        and q.dtype == k.dtype == v.dtype
        and q.dim() == k.dim() == v.dim()
        and q.dim() in (3, 4)
        and all(isinstance(x.shape[-1], int) and 0 < x.shape[-1] <= MAX_HEAD_DIM for x in (q, v))
        and q.shape[0] == k.shape[0] == v.shape[0]
        and k.shape[1:-1] == v.shape[1:-1]
        and (q.dim() == 3 or _share_heads(q, k, call.enable_gqa))
        and (mask is None or mask.dtype == torch.bool or mask.is_floating_point())
    )


def _share_heads(q: torch.Tensor, k: torch.Tensor, enable_gqa: bool) -> bool:
    heads, shared = q.shape[1], k.shape[1]
    if not isinstance(heads, int) or not isinstance(shared, int):
        return False
    return heads == shared or (enable_gqa and heads % shared == 0)


def unrepeated(node: Node) -> Node | None:
    """The operand of `repeat_kv`, with which models without enable_gqa repeat key and value heads.

    (batch, shared, n, dim) ==> unsqueeze, expand, reshape ==> (batch, shared * times, n, dim)
    """
    out = node.meta["val"]
    names = ("view", "reshape", "_unsafe_view", "clone")
    source = node
    while _name(source) in names:
        source = source.args[0]  # type: ignore[assignment]
    if source is node or _name(source) != "expand":
        return None
    wide = source.meta["val"]
    unsqueezed = source.args[0]
    if not isinstance(unsqueezed, Node) or _name(unsqueezed) != "unsqueeze":
        return None
    (origin, dim, *_) = unsqueezed.args
    if not isinstance(origin, Node) or dim != 2 or wide.dim() != 5 or out.dim() != 4:
        return None
    batch, shared, n, width = origin.meta["val"].shape
    times = wide.shape[2]
    expected = ((batch, shared, times, n, width), (batch, shared * times, n, width))
    return origin if (tuple(wide.shape), tuple(out.shape)) == expected else None


def _name(node: Any) -> str:
    """ "view" of a call of aten.view.default or aten.view_copy.default."""
    if not isinstance(node, Node) or not isinstance(node.target, torch._ops.OpOverload):
        return ""
    return node.target._schema.name.removeprefix("aten::").removesuffix("_copy")


def _head_dim(node: Node) -> int:
    size: int = node.meta["val"].shape[-1]
    return size


def _calls(graph_module: GraphModule) -> Iterator[Node]:
    """Calls of any variant of attention, also in submodules (branches)."""
    for module in graph_module.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                if node.op == "call_function" and node.target in WHOLE:
                    yield node


def _by_library(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: float,
    blocks: Sequence[torch.Tensor],
) -> torch.Tensor:
    assert not blocks
    # The runtime's fast kernels need a contiguous head dimension.
    q, k, v = (x if x.stride(-1) in (0, 1) else x.contiguous() for x in (q, k, v))
    out: torch.Tensor = RUNTIME_ATTENTION(
        q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    return out


def _by_flex(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: float,
    blocks: Sequence[torch.Tensor],
) -> torch.Tensor:
    from torch._higher_order_ops.flex_attention import flex_attention

    Index: TypeAlias = torch.Tensor

    def at(mask: torch.Tensor, *where: Index) -> torch.Tensor:
        where = where[4 - mask.dim() :]
        return mask[
            tuple(
                torch.zeros_like(i) if isinstance(size, int) and size == 1 else i
                for i, size in zip(where, mask.shape, strict=True)
            )
        ]

    def add_mask(
        score: torch.Tensor, b: Index, h: Index, m: Index, n: Index, *masks: torch.Tensor
    ) -> torch.Tensor:
        for mask in masks:
            score = score + at(mask, b, h, m, n)
        return score

    masks = () if mask is None else (mask,)
    score_buffers, mask_buffers = ((), masks) if blocks else (masks, ())
    if blocks:
        lengths = q.shape[-2], k.shape[-2]
        visited = _block_mask(blocks, lengths, _BLOCK, lambda b, h, m, n, x: at(x, b, h, m, n))
    else:
        visited = _causal_blocks(q, k) if causal else _one_block(q, k)
    buffers = score_buffers, mask_buffers
    out: torch.Tensor = flex_attention(q, k, v, add_mask, visited, scale, _FLEX, *buffers)[0]
    return out


def _one_block(q: torch.Tensor, k: torch.Tensor) -> tuple[Any, ...]:
    """A block mask of one block: every query attends to every key."""
    ones = q.new_ones((1, 1, 1), dtype=torch.int32)
    zeros = q.new_zeros((1, 1, 1, 1), dtype=torch.int32)
    size = 1 << 30

    def all_keys(
        b: torch.Tensor, h: torch.Tensor, m: torch.Tensor, n: torch.Tensor
    ) -> torch.Tensor:
        return n.new_ones((), dtype=torch.bool)

    return _block_mask((ones, zeros, None, None), (1, 1), size, all_keys)


def _causal_blocks(q: torch.Tensor, k: torch.Tensor) -> tuple[Any, ...]:
    """Query i attends to keys 0 to i: full blocks of keys, then the one on the diagonal."""
    rows, columns = (-(-x.shape[-2] // _BLOCK) for x in (q, k))
    row = torch.arange(rows, dtype=torch.int32, device=q.device)
    column = torch.arange(columns, dtype=torch.int32, device=q.device)
    partial = (row < columns).to(torch.int32).view(1, 1, rows)
    diagonal = row.clamp(max=columns - 1).view(1, 1, rows, 1).expand(1, 1, rows, columns)
    whole = row.clamp(max=columns).view(1, 1, rows)
    before = column.view(1, 1, 1, columns).expand(1, 1, rows, columns)

    def keys_before(
        b: torch.Tensor, h: torch.Tensor, m: torch.Tensor, n: torch.Tensor
    ) -> torch.Tensor:
        return m >= n

    lists = (partial, diagonal.contiguous(), whole, before.contiguous())
    return _block_mask(lists, (q.shape[-2], k.shape[-2]), _BLOCK, keys_before)


def _block_mask(
    lists: Sequence[Any],
    lengths: tuple[Any, Any],
    size: int,
    mask_mod: Any,
) -> tuple[Any, ...]:
    """A `BlockMask` as `flex_attention` of the installed torch takes it, for inference."""
    from torch.nn.attention.flex_attention import BlockMask

    partial, diagonal, whole, before = lists
    mask = BlockMask(
        seq_lengths=lengths,
        kv_num_blocks=partial,
        kv_indices=diagonal,
        full_kv_num_blocks=whole,
        full_kv_indices=before,
        q_num_blocks=None,
        q_indices=None,
        full_q_num_blocks=None,
        full_q_indices=None,
        BLOCK_SIZE=(size, size),
        mask_mod=mask_mod,
    )
    found: tuple[Any, ...] = mask.as_tuple()
    return found
