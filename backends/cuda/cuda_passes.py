"""What is changed in a partition's graph because it runs on a GPU.

for apply in cuda_passes():
    apply(graph_module)

Which passes there are, and which were tried and are not, with numbers:
decisions/2026-11-21-passes.md.
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

#: The most that both branches together may read, write and compute for both to be computed: some
#: microseconds, less than it takes the host to learn a predicate from the GPU.
MAX_BYTES = 16 << 20
MAX_FLOPS = 1 << 31

#: Up to so many queries of float32 the runtime's kernel, which is bound by memory, is the fastest.
FEW_QUERIES = 16

#: Inductor's flex_attention takes no smaller heads, and is slow for larger ones.
_FLEX_ITEMS = range(16, 129)

#: From so many queries on flex_attention, which leaves out what a mask of booleans excludes, is
#: faster than cuDNN, which reads all of the mask as numbers.
MANY_QUERIES = 1024

_aten = torch.ops.aten
_PRODUCTS = frozenset(
    {_aten.mm.default, _aten.addmm.default, _aten.bmm.default, _aten.baddbmm.default}
)
# Besides pointwise operators and products. None of these fails, whatever numbers it is given: the
# branch that is not taken must not be noticed.
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
    """In the order to apply them."""
    return [SelectInsteadOfCondPass()]


def attention_pass(options: CudaOptions) -> AttentionPass:
    """Attention by what the options say, or by what is fastest; see `CudaOptions.attention`."""

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
    """Convolutions that cuDNN computes with what follows them; which, and how much faster, is in
    decisions/2026-11-23-convolution-plans.md."""
    dtypes = {torch.float16, torch.bfloat16, *([torch.float32] if options.allow_tf32 else [])}

    def choose(conv: Node) -> bool:
        x: Any = conv.args[0]
        is_depthwise = conv.args[8] != 1 and conv.args[8] == x.meta["val"].shape[1]
        return conv.meta["val"].dtype in dtypes and not is_depthwise

    return functools.partial(fuse_convolutions, choose=choose)


class SelectInsteadOfCondPass(PassBase):
    """Computes both branches of a small `cond` and takes the elements of one.

        %y = cond(%p, true_graph, false_graph, [%x])   ==>   %y = where(%p, true(%x), false(%x))

    The host branches: it waits until the GPU has computed the predicate, with all that the GPU had
    to do before, and queues nothing meanwhile. Two small branches are computed in less, the host
    goes on, and the call can be captured into a CUDA graph.

    Left alone: branches above MAX_BYTES or MAX_FLOPS or of sizes that are not known, operators that
    could fail or be noticed (indexing, random numbers, assertions, further control flow), and
    predicates that the host knows.
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
    if not all(map(_is_safe, branches)) or not _are_alike(*branches) or not _are_small(branches):
        return False
    graph = owner.graph
    with graph.inserting_before(cond):
        scalar = predicate
        if predicate.meta["val"].dim() != 0:
            scalar = graph.call_function(_aten.reshape.default, (predicate, []))
            scalar.meta["val"] = predicate.meta["val"].reshape([])
        results = [_inline(owner, branch, operands) for branch in branches]
    selected = list(zip(*results, strict=True))
    for user in cond.users.copy():  # they keep their names, by which signatures know outputs
        position = user.args[1]
        assert isinstance(position, int)
        user.target, user.args = _aten.where.self, (scalar, *selected[position])
    graph.erase_node(cond)
    return True


def _inline(owner: GraphModule, branch: GraphModule, operands: Any) -> list[Node]:
    """Copies a branch to where `owner`'s graph inserts; returns its outputs."""
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
    """Whether nobody notices that it is computed."""
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


def _are_alike(first: GraphModule, second: GraphModule) -> bool:
    """Whether their outputs are tensors of equal dtypes and of equal sizes, all known."""
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
    """By what is read once and written once: pointwise operators are fused."""
    nbytes = flops = 0
    for branch in branches:
        for tensor in _touched(branch):
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


def _touched(branch: GraphModule) -> Iterator[torch.Tensor | None]:
    """What a branch reads of its operands, and what it keeps besides registers."""
    for node in branch.graph.nodes:
        if node.op == "placeholder":
            if node.users and isinstance(node.meta.get("val"), torch.Tensor):
                yield _value(node)
        elif node.op == "call_function" and node.target in _PRODUCTS:
            yield _value(node)
    for node in _outputs(branch):
        yield _value(node)
