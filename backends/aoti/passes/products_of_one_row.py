"""Products of one row that a sum computes faster.

    mm(%x, %right)    ==>    sum(%x as a column * %right, over the rows)

where `%x` is [1, k], and `%right`, [k, n], is

* dequantized, as weight-only quantization leaves it: computed from whole numbers of a byte by
  operators that Inductor fuses. Then it is computed in the product's own loop, which reads the
  bytes once, rather than written to memory and read from there;
* of floats, on a device that sums faster than its library multiplies: up to so many columns, each
  of which lies in one piece.

A product of several rows stays one.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from pteron.exir.decompositions import replace_by_trace

_aten = torch.ops.aten
_BYTES = frozenset({torch.int8, torch.uint8})
#: What stays in registers of a fused loop, or costs nothing.
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


class ProductsOfOneRowPass(PassBase):
    """See the module's text. Nodes need fake values (`meta["val"]`) and get them.

    Args:
        max_columns: of a right factor of floats that is summed.
    """

    def __init__(self, max_columns: int = 0) -> None:
        super().__init__()
        self._max_columns = max_columns

    def call(self, graph_module: GraphModule) -> PassResult:
        modified = False
        for node in list(graph_module.graph.nodes):
            if node.target in (_aten.mm.default, _aten.addmm.default) and self._is_summed(node):
                modified |= _write_as_sum(node)
        if modified:
            graph_module.graph.eliminate_dead_code()
            graph_module.recompile()
        return PassResult(graph_module, modified)

    def _is_summed(self, node: Node) -> bool:
        args: Sequence[Any] = node.args
        left, right = (argument.meta["val"] for argument in args[-2:])
        if node.kwargs or not right.is_floating_point():
            return False
        if not all(isinstance(size, int) for size in (*left.shape, *right.shape)) or len(left) != 1:
            return False
        if right.shape[1] <= self._max_columns and right.stride(0) == 1:
            return True
        return args[-1].target in _FUSED and _reads_bytes(args[-1], right.numel())


def _reads_bytes(node: Node, count: int) -> bool:
    """Whether `count` numbers of `node`, or twice as many, come from as many bytes, by operators
    that are fused."""
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


def _write_as_sum(node: Node) -> bool:
    args: Sequence[Any] = node.args
    *bias, left, right = args
    dtype = node.meta["val"].dtype
    if right.target is _aten._to_copy.default and right.args[0].meta["val"].dtype in _BYTES:
        (right,) = right.all_input_nodes  # bytes become float32 as they are

    def run(left: torch.Tensor, right: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        # In float32, as a product adds up. Inductor writes to memory what it takes strides of:
        # the loop would compute it again for each column.
        column = left.as_strided((left.shape[1], 1), (left.stride(1), 1))
        result = (column.float() * right.float()).sum(0, keepdim=True)
        for each in bias:
            result = result + each.float()
        return result.to(dtype)

    return replace_by_trace(node, run, [left, right, *bias])
