"""Rewrites patch embeddings (convolutions with stride = kernel size) as matmuls.

    %y = convolution(%x, %w, %b, stride=[16, 16], ...)    # %w: [out, in, 16, 16], %x: [n, in, h, w]
    ==>
    patches of %x, [n * h/16 * w/16, in * 16 * 16], times %w, [out, in * 16 * 16] transposed

Inductor generates the matmul, with packed weights; the convolution would be a library call.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

_aten = torch.ops.aten


class PatchEmbeddingAsMatmulPass(PassBase):
    """See the module's docstring. Nodes need fake values (`meta["val"]`) and get them."""

    def call(self, graph_module: GraphModule) -> PassResult:
        modified = False
        for node in list(graph_module.graph.nodes):
            if node.target is _aten.convolution.default and is_patch_embedding(node):
                _write_as_matmul(node)
                modified = True
        if modified:
            graph_module.recompile()
        return PassResult(graph_module, modified)


def is_patch_embedding(node: Node) -> bool:
    """Whether the pass rewrites this convolution."""
    args: Sequence[Any] = node.args
    x, weight, _, stride, padding, dilation, transposed, _, groups = args
    kernel, sizes = weight.meta["val"].shape[2:], x.meta["val"].shape[2:]
    return (
        not transposed
        and groups == 1
        and all(isinstance(size, int) for size in (*kernel, *sizes, *x.meta["val"].shape[1:2]))
        and max(kernel) > 1  # else it is a matmul already
        and list(stride) == list(kernel)
        and not any(padding)
        and all(step == 1 for step in dilation)
        and all(size > 0 and size % k == 0 for size, k in zip(sizes, kernel, strict=True))
        and node.meta["val"].is_contiguous()
    )


def _write_as_matmul(node: Node) -> None:
    """Inserts the matmul; `node` becomes its last node, whose name a signature may refer to."""
    args: Sequence[Any] = node.args
    x, weight, bias = args[:3]
    kernel = weight.meta["val"].shape[2:]
    channels, *sizes = x.meta["val"].shape[1:]
    counts = [size // k for size, k in zip(sizes, kernel, strict=True)]
    rank, depth = len(kernel), channels * kernel.numel()

    def call(target: Any, *args: Any) -> Node:
        with node.graph.inserting_before(node):
            made = node.graph.call_function(target, args)
        values = torch.fx.map_arg(args, lambda argument: argument.meta["val"])
        made.meta = {**node.meta, "val": target(*values)}
        return made

    # [n, channels, count, k, count, k] to [n, count, count, channels, k, k]
    split = [length for pair in zip(counts, kernel, strict=True) for length in pair]
    order = [0, *range(2, 2 + 2 * rank, 2), 1, *range(3, 3 + 2 * rank, 2)]
    patches = call(_aten.reshape.default, x, [-1, channels, *split])
    patches = call(_aten.permute.default, patches, order)
    patches = call(_aten.reshape.default, patches, [-1, depth])
    columns = call(_aten.reshape.default, weight, [-1, depth])
    columns = call(_aten.permute.default, columns, [1, 0])
    if bias is None:
        matmul = call(_aten.mm.default, patches, columns)
    else:
        matmul = call(_aten.addmm.default, bias, patches, columns)
    channels_last = call(_aten.reshape.default, matmul, [-1, *counts, weight.meta["val"].shape[0]])
    planes = call(_aten.permute.default, channels_last, [0, rank + 1, *range(1, rank + 1)])
    node.target, node.args = _aten.clone.default, (planes,)
    node.kwargs = {"memory_format": torch.contiguous_format}
