"""The call of a delegate in a graph.

``executorch_call_delegate(lowered_module, *args)`` is torch's own higher-order operator, so that
export, its verifier and fake tensors know it: called eagerly or traced, it runs the original
module; in a program it becomes one delegate call. It is functional: what the delegate changes in
place is an output of the call (see ``LoweredBackendModule.mutated_inputs``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._higher_order_ops.executorch_call_delegate import (
    executorch_call_delegate,
    get_lowered_module_name,
    is_lowered_module,
)
from torch.fx import GraphModule, Node

if TYPE_CHECKING:
    from pteron.exir.lowered_backend_module import LoweredBackendModule

__all__ = [
    "executorch_call_delegate",
    "get_lowered_module_name",
    "is_lowered_module",
    "lowered_module_of",
    "lowered_modules",
]


def lowered_module_of(call: Node) -> LoweredBackendModule:
    """The lowered module that a delegate call runs."""
    attribute = call.args[0]
    assert isinstance(attribute, Node) and attribute.op == "get_attr"
    module: torch.nn.Module | None = call.graph.owning_module
    assert module is not None and isinstance(attribute.target, str)
    return module.get_submodule(attribute.target)  # type: ignore[return-value]


def lowered_modules(
    graph_module: GraphModule,
) -> list[tuple[Node, LoweredBackendModule]]:
    """Every delegate call of a graph with its lowered module, in order."""
    return [
        (node, lowered_module_of(node))
        for node in graph_module.graph.nodes
        if node.op == "call_function" and node.target is executorch_call_delegate
    ]
