"""Lets Inductor copy where a view does not fit.

    %y = view(%x, [12])    ==>    %y = reshape(%x, [12])

Decompositions can leave a `view` on memory whose strides no longer allow it. `reshape` is the same
where they do and copies where they do not. It is a second try, not a habit: see `AotiBackend`.
"""

import torch
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassBase, PassResult


class ReshapeInsteadOfViewPass(PassBase):
    """See the module's text. Graphs of branches are changed with their parent."""

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
