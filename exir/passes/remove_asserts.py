"""Drops run-time assertions that no delegate took."""

import torch
from torch.fx import GraphModule

from pteron.exir.passes.pass_base import PassBase, PassResult

_ASSERTIONS = frozenset(
    {
        torch.ops.aten._assert_async.msg,
        torch.ops.aten._assert_async.default,
        torch.ops.aten._assert_scalar.default,
        torch.ops.aten._assert_tensor_metadata.default,
        torch.ops.aten.sym_constrain_range.default,
        torch.ops.aten.sym_constrain_range_for_size.default,
    }
)


class RemoveAsserts(PassBase):
    """Removes assertions, and what was computed for them alone.

    before:  big = x.sum() > 0; _assert_async(big); return x      after:  return x

    Sizes of inputs are checked by the runtime, against the bounds in the file.
    """

    def call(self, graph_module: GraphModule) -> PassResult:
        graph = graph_module.graph
        found = [n for n in graph.nodes if n.op == "call_function" and n.target in _ASSERTIONS]
        for node in found:
            graph.erase_node(node)
        for node in reversed(graph.nodes):
            if node.op == "call_function" and not node.users:
                graph.erase_node(node)
        graph_module.recompile()
        return PassResult(graph_module, modified=bool(found))
