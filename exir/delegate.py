"""The call of a delegate in a graph.

`executorch_call_delegate(lowered_module, *args)` is torch's own higher-order operator, so that
export, its verifier and fake tensors know it: called eagerly or traced, it runs the original
module; in a program it becomes one delegate call. It is functional: what the delegate changes in
place is an output of the call (see `LoweredBackendModule.mutated_inputs`).
"""

from torch._higher_order_ops.executorch_call_delegate import (
    executorch_call_delegate,
    get_lowered_module_name,
    is_lowered_module,
)

__all__ = ["executorch_call_delegate", "get_lowered_module_name", "is_lowered_module"]
