"""The call of a delegate in a graph.

`executorch_call_delegate(lowered_module, *args)` is torch's own higher-order operator, supported by
export, its verifier and fake tensors. Called eagerly or traced, it runs the original module; in a
program it is one delegate call. It is functional: what the delegate mutates is an output of the
call (see `LoweredBackendModule.mutated_inputs`).
"""

from torch._higher_order_ops.executorch_call_delegate import (
    executorch_call_delegate,
    get_lowered_module_name,
    is_lowered_module,
)

__all__ = ["executorch_call_delegate", "get_lowered_module_name", "is_lowered_module"]
