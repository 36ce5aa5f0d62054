"""Integers that are inputs: AOTInductor takes tensors only.

    f(x, n)    ==>    f(x, sizes): n = sizes.size(0)

`sizes` has the shape (n, 0), so it has no memory. The runtime makes it of the integer
(backends/aoti/runtime/argument_binding.cpp), and the contract checks its sizes.
"""

import torch

from pteron.backends.aoti.inductor.absent_weights import fake_mode_of

#: Of the tensor that stands for an integer.
DTYPE = torch.uint8


def numbers_as_sizes(module: torch.fx.GraphModule, device: str) -> None:
    """Replaces the inputs of `module` that are integers, in place."""
    placeholders = list(module.graph.find_nodes(op="placeholder"))
    for node in placeholders:
        number = node.meta["val"]
        if not isinstance(number, torch.SymInt):
            continue
        with fake_mode_of(module.graph, shape_env=number.node.shape_env):
            node.meta["val"] = torch.empty((number, 0), dtype=DTYPE, device=device)
        with module.graph.inserting_after(placeholders[-1]):
            size = module.graph.call_function(torch.ops.aten.sym_size.int, (node, 0))
        size.meta["val"] = number
        node.replace_all_uses_with(size, lambda user, size=size: user is not size)
    module.recompile()
