"""Which nodes the BLAS backend can take, and for the others, why not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.passes.operator_support import OperatorSupportBase

aten = torch.ops.aten

PRODUCTS = (
    aten.linear.default,
    aten.addmm.default,
    aten.mm.default,
    aten.bmm.default,
)
"""The operators that a plan can express."""


class OpSupport(OperatorSupportBase):
    """Says yes to matrix products of float32 tensors.

    Args:
        nodes: the only nodes to say yes to (what no other backend has taken); None for any.
    """

    def __init__(self, nodes: Collection[Node] | None = None) -> None:
        self._nodes = None if nodes is None else frozenset(nodes)

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        """For torch's partitioner; `submodules` is not needed."""
        if self._nodes is not None and node not in self._nodes:
            return False
        return is_product(node) and reason(node) is None


def is_product(node: Node) -> bool:
    """Whether a node calls one of `PRODUCTS`."""
    return node.op == "call_function" and node.target in PRODUCTS


def reason(node: Node) -> str | None:
    """Why a product cannot be taken; None if it can."""
    for operand in node.all_input_nodes:
        dtype = operand.meta["val"].dtype
        if dtype is not torch.float32:
            return f"{operand.name} is {dtype}; BlasBackend multiplies torch.float32"
    arguments: Sequence[Any] = node.args
    if node.target is aten.linear.default and arguments[1].meta["val"].dim() != 2:
        return "the weight of linear is not a matrix"
    if node.target is aten.addmm.default:
        return _addmm_reason(node)
    return None


def _addmm_reason(node: Node) -> str | None:
    for name in ("alpha", "beta"):
        if not isinstance(node.kwargs.get(name, 1), int | float):
            return f"{name} of addmm is not a constant"
    arguments: Sequence[Any] = node.args
    sizes = arguments[0].meta["val"].shape
    rows, columns = node.meta["val"].shape
    whole = len(sizes) == 2 and _equal(sizes, (rows, columns))
    one_row = _equal(sizes, (columns,)) or _equal(sizes, (1, columns))
    if not whole and not one_row:
        return f"addmm adds a tensor of shape {tuple(sizes)}; BlasBackend adds a row or a matrix"
    return None


def _equal(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two shapes are equal for all values of their symbols."""
    return len(left) == len(right) and all(
        statically_known_true(a == b) for a, b in zip(left, right, strict=True)
    )
