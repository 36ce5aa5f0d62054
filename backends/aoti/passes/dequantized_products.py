"""Products whose right factor is dequantized, as weight-only quantization leaves them.

    mm(%x, dequantized)    ==>    sum(%x as a column * dequantized, over the rows)    # %x: [1, k]

where `dequantized`, [k, n], is computed from whole numbers of a byte by operators that Inductor
fuses: then it is computed in the product's own loop, which reads the bytes once, rather than
written to memory and read from there. A product of several rows stays one.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassBase, PassResult

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


class DequantizedProductsPass(PassBase):
    """See the module's text. Nodes need fake values (`meta["val"]`) and get them."""

    def call(self, graph_module: GraphModule) -> PassResult:
        modified = False
        for node in list(graph_module.graph.nodes):
            if node.target in (_aten.mm.default, _aten.addmm.default) and _is_of_one_row(node):
                _write_as_sum(node)
                modified = True
        if modified:
            graph_module.graph.eliminate_dead_code()
            graph_module.recompile()
        return PassResult(graph_module, modified)


def _is_of_one_row(node: Node) -> bool:
    args: Sequence[Any] = node.args
    left, right = (argument.meta["val"] for argument in args[-2:])
    if node.kwargs or not right.is_floating_point():
        return False
    if not all(isinstance(size, int) for size in (*left.shape, *right.shape)) or len(left) != 1:
        return False
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


def _write_as_sum(node: Node) -> None:
    """The nodes that compute `node`, which becomes the last: signatures know outputs by name."""
    args: Sequence[Any] = node.args
    dtype = node.meta["val"].dtype

    def call(target: Any, *args: Any, **kwargs: Any) -> Node:
        with node.graph.inserting_before(node):
            made = node.graph.call_function(target, args, kwargs)
        values = torch.fx.map_arg(args, lambda argument: argument.meta["val"])
        made.meta = {**node.meta, "val": target(*values, **kwargs)}
        return made

    def as_float32(x: Node) -> Node:
        # Bytes become float32 as they are.
        (source,) = x.all_input_nodes if x.target is _aten._to_copy.default else (x,)
        is_bytes = source.meta["val"].dtype in _BYTES
        return call(_aten._to_copy.default, source if is_bytes else x, dtype=torch.float32)

    left, right = (as_float32(x) for x in args[-2:])
    column = call(_aten.permute.default, left, [1, 0])
    result = call(_aten.sum.dim_IntList, call(_aten.mul.Tensor, column, right), [0], True)
    if len(args) == 3:
        bias = call(_aten._to_copy.default, args[0], dtype=torch.float32)
        result = call(_aten.add.Tensor, result, bias)
    node.target, node.args, node.kwargs = _aten._to_copy.default, (result,), {"dtype": dtype}
