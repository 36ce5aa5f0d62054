"""The call of a delegate in a graph, by ExecuTorch's name."""

from pteron.exir.graph.delegate import (
    executorch_call_delegate,
    get_lowered_module_name,
    is_lowered_module,
)

__all__ = ["executorch_call_delegate", "get_lowered_module_name", "is_lowered_module"]
