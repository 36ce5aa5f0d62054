"""Constant folding of single nodes of a program."""

from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from pteron.backends.aoti.passes.program_constants import ProgramConstants

# Limits of what is folded: enough for the masks of models, and no large part of a graph.
_MAX_NODES = 200
_MAX_NUMEL = 1 << 26


def is_computable(node: Node) -> bool:
    """Whether it calls an operator whose result depends on its arguments alone."""
    operator = node.target
    return (
        isinstance(operator, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded not in operator.tags
        and not operator._schema.is_mutable
    )


class ConstantValues:
    """Values of nodes that depend on no input, computed on the host."""

    def __init__(self, constants: ProgramConstants, max_numel: int = _MAX_NUMEL) -> None:
        self._constants = constants
        self._max_numel = max_numel
        self._known: dict[Node, Any] = {}

    def of(self, node: Node) -> torch.Tensor | None:
        """The value of `node`; None if it depends on inputs or is too large."""
        order = self._order(node)
        if order is None:
            return None
        try:
            for each in order:
                if each not in self._known:
                    self._known[each] = self._compute(each)
        except Exception:  # an operator without a CPU kernel, say: not folded
            return None
        value = self._known[node]
        return value if isinstance(value, torch.Tensor) else None

    def _order(self, last: Node) -> list[Node] | None:
        """`last` and all that it depends on, in topological order; None if that is not constant."""
        order: dict[Node, None] = {}
        pending = [last]
        while pending:
            node = pending[-1]
            if node in order:
                pending.pop()
                continue
            if not self._is_constant(node) or len(order) + len(pending) > _MAX_NODES:
                return None
            operands = [x for x in node.all_input_nodes if x not in order]
            pending.extend(operands)
            if not operands:
                order[pending.pop()] = None
        return list(order)

    def _is_constant(self, node: Node) -> bool:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            sizes = value.shape
            if not all(isinstance(x, int) for x in sizes) or sizes.numel() > self._max_numel:
                return False
        return node in self._constants or is_computable(node)

    def _compute(self, node: Node) -> Any:
        if node in self._constants:
            return self._constants.value(node).cpu()

        def on_host(x: Any) -> Any:
            if isinstance(x, Node):
                return self._known[x]
            return torch.device("cpu") if isinstance(x, torch.device) else x

        args, kwargs = pytree.tree_map(on_host, (node.args, dict(node.kwargs)))
        assert callable(node.target)
        return node.target(*args, **kwargs)
