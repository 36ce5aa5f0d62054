"""Rewrites a GEMV (`mm` or `addmm` with one row) as a multiplication and a reduction.

    mm(%x, %weight)    ==>    sum(%x as a column * %weight, over the rows)

where `%x` is [1, k], and `%weight`, [k, n], is

* dequantized int8 or uint8, by operators that Inductor fuses into the reduction: it reads the bytes
  once, rather than writing the dequantized weight to memory and reading it from there;
* floating-point, at most `max_columns` wide and contiguous by column, on a device where a generated
  reduction is faster than the library's GEMV.

A GEMM of several rows is left alone.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from pteron.exir.operators.decompositions import replace_by_trace

_aten = torch.ops.aten
_BYTES = frozenset({torch.int8, torch.uint8})
#: Pointwise operators and views, which Inductor fuses into the reduction.
_FUSED = frozenset(
    {
        _aten._to_copy.default,
        _aten.add.Tensor,
        _aten.bitwise_and.Scalar,
        _aten.bitwise_right_shift.Tensor_Scalar,
        _aten.expand.default,
        _aten.mul.Tensor,
        _aten.permute.default,
        _aten.reshape.default,
        _aten.sub.Tensor,
        _aten.unsqueeze.default,
        _aten.view.default,
    }
)


class GemvAsReductionPass(PassBase):
    """See the module's docstring. Nodes need fake values (`meta["val"]`) and get them.

    Args:
        max_columns: of a floating-point weight whose GEMV is rewritten.
    """

    def __init__(self, max_columns: int = 0) -> None:
        super().__init__()
        self._max_columns = max_columns

    def call(self, graph_module: GraphModule) -> PassResult:
        modified = False
        for node in list(graph_module.graph.nodes):
            if node.target in (_aten.mm.default, _aten.addmm.default) and self._is_rewritten(node):
                modified |= _write_as_reduction(node)
        if modified:
            graph_module.graph.eliminate_dead_code()
            graph_module.recompile()
        return PassResult(graph_module, modified)

    def _is_rewritten(self, node: Node) -> bool:
        args: Sequence[Any] = node.args
        row, weight = (argument.meta["val"] for argument in args[-2:])
        if node.kwargs or not weight.is_floating_point():
            return False
        if not all(isinstance(size, int) for size in (*row.shape, *weight.shape)) or len(row) != 1:
            return False
        if weight.shape[1] <= self._max_columns and weight.stride(0) == 1:
            return True
        return args[-1].target in _FUSED and _is_dequantized(args[-1], weight.numel())


def _is_dequantized(node: Node, count: int) -> bool:
    """Whether `node`, of `count` elements, is computed by fused operators from an 8-bit tensor of
    at least half as many."""
    pending, seen, found = [node], {node}, False
    while pending:
        for source in pending.pop().all_input_nodes:
            value = source.meta.get("val")
            if not isinstance(value, torch.Tensor):
                return False
            if source.target in _FUSED:
                if source not in seen:
                    seen.add(source)
                    pending.append(source)
            else:
                found |= value.dtype in _BYTES and 2 * value.numel() >= count
    return found


def _write_as_reduction(node: Node) -> bool:
    args: Sequence[Any] = node.args
    *bias, row, weight = args
    dtype = node.meta["val"].dtype
    if weight.target is _aten._to_copy.default and weight.args[0].meta["val"].dtype in _BYTES:
        (weight,) = weight.all_input_nodes  # bytes become float32 as they are

    def run(row: torch.Tensor, weight: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        # Accumulates in float32, as a GEMM does. `as_strided` realizes the row, which would
        # otherwise be recomputed for each column.
        column = row.as_strided((row.shape[1], 1), (row.stride(1), 1))
        result = (column.float() * weight.float()).sum(0, keepdim=True)
        for each in bias:
            result = result + each.float()
        return result.to(dtype)

    return replace_by_trace(node, run, [row, weight, *bias])
