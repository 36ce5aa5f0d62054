"""Removes assertions of dtypes and devices, which hold for the traced program.

    _assert_tensor_metadata(%x, dtype=float32)    ==>    nothing

Inductor may give an intermediate another dtype (torch 2.11: integers for a mask that was filled
with scalars), with the same results, and would fail.
"""

import torch
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassBase, PassResult


class RemoveMetadataAssertsPass(PassBase):
    """See the module's docstring. Submodules (branches) are rewritten, too."""

    def call(self, graph_module: GraphModule) -> PassResult:
        modified = False
        for module in graph_module.modules():
            if not isinstance(module, GraphModule):
                continue
            for node in list(module.graph.nodes):
                if node.target is torch.ops.aten._assert_tensor_metadata.default:
                    module.graph.erase_node(node)
                    modified = True
            module.recompile()
        return PassResult(graph_module, modified)
