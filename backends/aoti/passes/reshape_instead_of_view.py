"""Rewrites `view` as `reshape`, which copies where strides do not allow a view.

    %y = view(%x, [12])    ==>    %y = reshape(%x, [12])

Decompositions and Inductor's layouts can leave a `view` whose strides no longer allow it. This is a
fallback: see `AotiBackend`.
"""

import torch
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassBase, PassResult


class ReshapeInsteadOfViewPass(PassBase):
    """See the module's docstring. Submodules (branches) are rewritten, too."""

    def call(self, graph_module: GraphModule) -> PassResult:
        modified = False
        for module in graph_module.modules():
            if not isinstance(module, GraphModule):
                continue
            for node in module.graph.nodes:
                if node.target is torch.ops.aten.view.default:
                    node.target = torch.ops.aten.reshape.default
                    modified = True
            module.recompile()
        return PassResult(graph_module, modified)
