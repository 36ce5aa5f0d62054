"""Which nodes an AOTI backend supports, and the reasons for others.

Inductor compiles most operators. An operator that may become a fallback kernel needs a C shim in
the device's runtime (the shim lists). If the tables are not conclusive, code is generated for that
single node. No C++ compiler runs here::

    support = OpSupport(target, shims)
    support.reason(node)   # None, or "aten.poisson.default needs ..., which ..."
"""

import dataclasses
import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias

import torch

from pteron.backends.aoti import inductor
from pteron.backends.aoti.lowering_cache import Facts
from pteron.backends.aoti.ops.attention.attention import WHOLE
from pteron.backends.aoti.passes.recurrent import LOOPS, has_recurrent_steps
from pteron.exir.graph import kernels
from pteron.exir.graph.delegate import executorch_call_delegate
from pteron.exir.operators.recurrent_layers import RECURRENT_LAYERS

LeaveOut: TypeAlias = Collection[torch._ops.OpOverload | str] | Callable[[torch.fx.Node], bool]
"""Operators, as objects or names ("aten.mm.default" or "aten.mm"), or a test on nodes."""

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)


class OpSupport:
    """Support for one target. Caches results, so use one instance per graph.

    Args:
        target: the code generation target.
        shims: names of the C functions that the runtime has.
        leave_out: supported operators to leave out.
        facts: what is known of torch's operators from earlier processes.
    """

    def __init__(
        self,
        target: inductor.Target,
        shims: Collection[str],
        leave_out: LeaveOut = (),
        facts: Facts | None = None,
    ) -> None:
        self._facts = facts
        self._target = target
        inductor.callers_functions(target.device, target.operators)  # checks the names
        self._shims = frozenset(shims)
        has_layers = target.device in LOOPS or has_recurrent_steps(target.device, shims)
        self._whole = frozenset({*WHOLE, *(RECURRENT_LAYERS if has_layers else ())})
        self._is_left_out = _left_out_test(leave_out)
        self._reasons: dict[torch.fx.Node, str | None] = {}

    def reason(self, node: torch.fx.Node) -> str | None:
        """Why `node` is not supported; None if it is."""
        if node not in self._reasons:
            self._reasons[node] = self._find_reason(node)
        return self._reasons[node]

    def _find_reason(self, node: torch.fx.Node) -> str | None:
        if kernels.ON_HOST in node.meta:
            return "a runtime kernel checks it"
        if self._is_left_out(node):
            return f"{node.target} is left out by request"
        if node.target is operator.getitem:
            source = node.args[0]
            if isinstance(source, torch.fx.Node) and source.op == "call_function":
                return self.reason(source)
            return None
        if node.target is executorch_call_delegate:
            return "another backend has taken it"
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return self._higher_order_reason(node)
        if isinstance(node.target, torch._ops.OpOverload):
            return self._operator_reason(node, node.target)
        if isinstance(node.meta.get("val"), SYMBOLIC):
            return None
        return f"{node.target} is a Python function, not an operator"

    def _operator_reason(self, node: torch.fx.Node, op: torch._ops.OpOverload) -> str | None:
        if isinstance(node.meta.get("val"), SYMBOLIC) or node.meta.get("val") is None:
            return None
        if op in self._whole or op._schema.name in self._target.operators:
            return None
        is_complex = any(_is_complex(item) for item in (node, *node.all_input_nodes))
        if not is_complex and not self._fact(
            op, f"{op} may be a fallback", lambda: inductor.may_be_fallback(op)
        ):
            return None
        device = self._target.device
        function = self._fact(op, f"{op} on {device}", lambda: inductor.c_function(op, device))
        # Complex operators are fallback kernels, which must allocate their result.
        if function in self._shims and not (is_complex and str(function).endswith("_out")):
            return None
        called = self._called(node, op)
        if called.failure:
            return f"Inductor cannot lower {op} ({called.failure})"
        if called.proxied:
            return f"{op} has no C function that compiled code could call"
        missing = sorted(set(called.functions) - self._shims)
        if missing:
            return f"{op} needs {', '.join(missing)}, which the runtime does not have"
        return None

    def _fact(self, op: torch._ops.OpOverload, text: str, find: Callable[[], Any]) -> Any:
        is_known = self._facts is not None and op.namespace in ("aten", "prims", "pteron")
        return self._facts.of(text, find) if self._facts is not None and is_known else find()

    def _called(self, node: torch.fx.Node, op: torch._ops.OpOverload) -> inductor.CalledFunctions:
        """Failures may have passing causes, and the ranges of symbols are not in the signature."""
        called = None
        if all(map(_is_static, node.all_input_nodes)):
            text = f"calls of {inductor.signature(node)}"

            def find() -> Any:
                nonlocal called
                called = inductor.functions_called_by(node, self._target)
                return None if called.failure else dataclasses.astuple(called)

            if known := self._fact(op, text, find):
                return inductor.CalledFunctions(tuple(known[0]), tuple(known[1]))
        return called or inductor.functions_called_by(node, self._target)

    def _higher_order_reason(self, node: torch.fx.Node) -> str | None:
        if not inductor.compiles_higher_order(node.target):
            return f"Inductor has no code for the higher-order operator {node.target}"
        for graph in branch_modules(node):
            for inner in graph.graph.nodes:
                if inner.op == "call_function" and (reason := self.reason(inner)) is not None:
                    return f"inside {node.target}: {reason}"
        return None


def branch_modules(node: torch.fx.Node) -> Iterable[torch.fx.GraphModule]:
    """The graph modules that a control-flow node (cond, while_loop, map, scan) runs."""
    for argument in node.all_input_nodes:
        if argument.op == "get_attr":
            module = _attribute(argument)
            if isinstance(module, torch.fx.GraphModule):
                yield module


def _attribute(node: torch.fx.Node) -> Any:
    value: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return value


def _is_static(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    sizes = (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)
    return all(isinstance(size, int) for size in sizes)


def _is_complex(node: torch.fx.Node) -> bool:
    values = node.meta.get("val")
    for value in values if isinstance(values, tuple | list) else (values,):
        if isinstance(value, torch.Tensor) and value.is_complex():
            return True
    return False


def _left_out_test(leave_out: LeaveOut) -> Callable[[torch.fx.Node], bool]:
    if callable(leave_out):
        return leave_out
    if isinstance(leave_out, str):
        leave_out = (leave_out,)
    names = {str(item) for item in leave_out}

    def is_left_out(node: torch.fx.Node) -> bool:
        name = str(node.target)
        return name in names or name.rpartition(".")[0] in names

    return is_left_out
