"""Graph passes for CUDA.

for apply in cuda_passes():
    apply(graph_module)

Measurements, also of rejected passes: decisions/2026-11-21-passes.md.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from pteron.backends.aoti.ops.attention.attention import Attention
from pteron.backends.aoti.passes.attention import AttentionPass, Choice, has_blocks
from pteron.backends.aoti.passes.fuse_convolutions import fuse_convolutions
from pteron.backends.cuda.cuda_options import CudaOptions

#: Limits on memory traffic and FLOPs of both branches together: some microseconds, less than
#: reading a predicate from the GPU takes.
MAX_BYTES = 16 << 20
MAX_FLOPS = 1 << 31

#: Up to this many float32 queries the runtime's memory-bound kernel is fastest.
FEW_QUERIES = 16

#: Inductor's flex_attention does not support smaller heads, and is slow for larger ones.
_FLEX_ITEMS = range(16, 129)

#: From this many queries on, flex_attention, which skips blocks that a bool mask excludes, is
#: faster than cuDNN, which reads the whole mask as floating point.
MANY_QUERIES = 1024

_aten = torch.ops.aten
_PRODUCTS = frozenset(
    {_aten.mm.default, _aten.addmm.default, _aten.bmm.default, _aten.baddbmm.default}
)
# Allowed besides pointwise operators and matmuls. None of these fails for any input: the branch not
# taken must have no side effects.
_SAFE = frozenset(
    {
        _aten.alias.default,
        _aten.amax.default,
        _aten.amin.default,
        _aten.cat.default,
        _aten.clone.default,
        _aten.constant_pad_nd.default,
        _aten.expand.default,
        _aten.full.default,
        _aten.full_like.default,
        _aten.linear.default,
        _aten.matmul.default,
        _aten.mean.default,
        _aten.mean.dim,
        _aten.permute.default,
        _aten.select.int,
        _aten.slice.Tensor,
        _aten.squeeze.dims,
        _aten.sum.default,
        _aten.sum.dim_IntList,
        _aten.t.default,
        _aten.transpose.int,
        _aten.unsqueeze.default,
        _aten.view.default,
        _aten.reshape.default,
        _aten._softmax.default,
        _aten._log_softmax.default,
        _aten.softmax.int,
        _aten._to_copy.default,
        operator.getitem,
    }
)


def cuda_passes() -> list[Callable[[GraphModule], Any]]:
    """In order of application."""
    return [SelectInsteadOfCondPass()]


def attention_pass(options: CudaOptions) -> AttentionPass:
    """Attention as set by the options, or the fastest; see `CudaOptions.attention`."""

    def choose(call: Attention) -> Choice:
        if options.attention != "auto":
            return options.attention
        rows = call.query.meta["val"].shape[-2]
        items = [node.meta["val"].shape[-1] for node in (call.query, call.value)]
        if call.query.meta["val"].dtype != torch.float32:
            is_long = has_blocks(call) and rows >= MANY_QUERIES
            return "flex" if is_long and all(x in _FLEX_ITEMS for x in items) else "library"
        if isinstance(rows, int) and rows <= FEW_QUERIES:
            return "library"
        return "library" if min(items) < _FLEX_ITEMS.start else "flex"

    return AttentionPass(choose)


def convolution_pass(options: CudaOptions) -> Callable[[ExportedProgram], None]:
    """Convolutions with an epilogue that cuDNN fuses; see
    decisions/2026-11-23-convolution-plans.md."""
    dtypes = {torch.float16, torch.bfloat16, *([torch.float32] if options.allow_tf32 else [])}

    def choose(conv: Node) -> bool:
        x: Any = conv.args[0]
        is_depthwise = conv.args[8] != 1 and conv.args[8] == x.meta["val"].shape[1]
        return conv.meta["val"].dtype in dtypes and not is_depthwise

    return functools.partial(fuse_convolutions, choose=choose)


class SelectInsteadOfCondPass(PassBase):
    """Computes both branches of a small `cond` and selects one result.

        %y = cond(%p, true_graph, false_graph, [%x])   ==>   %y = where(%p, true(%x), false(%x))

    A `cond` synchronizes: the host waits until the GPU has computed the predicate and all earlier
    work, and queues nothing meanwhile. Computing two small branches takes less, does not block the
    host, and can be captured into a CUDA graph.

    Not rewritten: branches above MAX_BYTES or MAX_FLOPS or with unknown sizes, operators that
    may fail or have side effects (indexing, random numbers, assertions, control flow), and
    predicates known to the host.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        changed = False
        for node in list(graph_module.graph.nodes):
            if node.op == "call_function" and node.target is torch.ops.higher_order.cond:
                changed |= _select(graph_module, node)
        if changed:
            graph_module.graph.eliminate_dead_code()
            graph_module.delete_all_unused_submodules()
            graph_module.recompile()
        return PassResult(graph_module, changed)


def _select(owner: GraphModule, cond: Node) -> bool:
    arguments: Sequence[Any] = cond.args
    predicate, true_branch, false_branch, operands = arguments
    if not isinstance(predicate, Node) or not isinstance(predicate.meta.get("val"), torch.Tensor):
        return False
    if any(user.target is not operator.getitem for user in cond.users):
        return False
    branches = [getattr(owner, branch.target) for branch in (true_branch, false_branch)]
    if (
        not all(map(_is_safe, branches))
        or not _have_equal_outputs(*branches)
        or not _are_small(branches)
    ):
        return False
    graph = owner.graph
    with graph.inserting_before(cond):
        scalar = predicate
        if predicate.meta["val"].dim() != 0:
            scalar = graph.call_function(_aten.reshape.default, (predicate, []))
            scalar.meta["val"] = predicate.meta["val"].reshape([])
        results = [_inline(owner, branch, operands) for branch in branches]
    selected = list(zip(*results, strict=True))
    for user in cond.users.copy():  # keep their names, which signatures refer to
        position = user.args[1]
        assert isinstance(position, int)
        user.target, user.args = _aten.where.self, (scalar, *selected[position])
    graph.erase_node(cond)
    return True


def _inline(owner: GraphModule, branch: GraphModule, operands: Any) -> list[Node]:
    """Inlines a branch at the insertion point of `owner`'s graph; returns its outputs."""
    placeholders = [node for node in branch.graph.nodes if node.op == "placeholder"]
    copies = dict(zip(placeholders, operands, strict=True))
    for node in branch.graph.nodes:
        if node.op == "call_function":
            copies[node] = owner.graph.node_copy(node, lambda n: copies[n])
    return [copies[node] for node in _outputs(branch)]


def _outputs(branch: GraphModule) -> list[Any]:
    (output,) = (node for node in branch.graph.nodes if node.op == "output")
    values = output.args[0]
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _is_safe(branch: GraphModule) -> bool:
    """Whether it has no side effects and cannot fail."""
    for node in branch.graph.nodes:
        if node.op == "get_attr":
            return False
        if node.op != "call_function" or node.target in _SAFE or node.target in _PRODUCTS:
            continue
        target = node.target
        if not isinstance(target, OpOverload) or torch.Tag.pointwise not in target.tags:
            return False
        if torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable:
            return False
    return True


def _have_equal_outputs(first: GraphModule, second: GraphModule) -> bool:
    """Whether their outputs are tensors with equal dtypes and equal static sizes."""
    pairs = list(zip(map(_value, _outputs(first)), map(_value, _outputs(second)), strict=False))
    return len(_outputs(first)) == len(_outputs(second)) and all(
        a is not None
        and b is not None
        and a.dtype == b.dtype
        and _is_static(a)
        and a.shape == b.shape
        for a, b in pairs
    )


def _value(node: Any) -> torch.Tensor | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, torch.Tensor) else None


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in value.shape)


def _are_small(branches: list[GraphModule]) -> bool:
    """Counts memory read and written once, since pointwise operators are fused."""
    nbytes = flops = 0
    for branch in branches:
        for tensor in _accessed_tensors(branch):
            if tensor is None or not _is_static(tensor):
                return False
            nbytes += tensor.numel() * tensor.element_size()
        for node in branch.graph.nodes:
            if (value := _value(node)) is not None and not _is_static(value):
                return False
            if node.target in _PRODUCTS or node.target in (
                _aten.linear.default,
                _aten.matmul.default,
            ):
                inner = _value(node.args[-1 if node.target in _PRODUCTS else 0])
                product = _value(node)
                if inner is None or product is None:
                    return False
                flops += 2 * product.numel() * inner.shape[-2 if node.target in _PRODUCTS else -1]
    return nbytes <= MAX_BYTES and flops <= MAX_FLOPS


def _accessed_tensors(branch: GraphModule) -> Iterator[torch.Tensor | None]:
    """Bytes of operands and materialized intermediates of a branch."""
    for node in branch.graph.nodes:
        if node.op == "placeholder":
            if node.users and isinstance(node.meta.get("val"), torch.Tensor):
                yield _value(node)
        elif node.op == "call_function" and node.target in _PRODUCTS:
            yield _value(node)
    for node in _outputs(branch):
        yield _value(node)
