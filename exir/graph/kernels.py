"""The runtime's own kernels: arithmetic of scalars (SymInts), assertions, copies of tensors.

Computation on tensor elements is compiled; `runtime/kernel/kernels.inc` lists the kernels and their
purpose.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

COPY = "aten::copy_"
"""Copies a tensor into another."""

CLONE = "aten::clone.out"
"""Clones a tensor that is about to be overwritten."""

HOST_TO_DEVICE = "et_copy::_h2d_copy.out"
DEVICE_TO_HOST = "et_copy::_d2h_copy.out"

SCALAR_KERNELS: dict[Callable[..., Any], str] = {
    torch.ops.aten.sym_size.int: "aten::sym_size.int",
    torch.ops.aten.sym_numel.default: "aten::sym_numel",
    torch.ops.aten._local_scalar_dense.default: "aten::_local_scalar_dense",
    operator.add: "executorch_prim::add.Scalar",
    operator.sub: "executorch_prim::sub.Scalar",
    operator.mul: "executorch_prim::mul.Scalar",
    operator.floordiv: "executorch_prim::floordiv.Scalar",
    operator.truediv: "executorch_prim::truediv.Scalar",
    operator.mod: "executorch_prim::mod.Scalar",
    operator.neg: "executorch_prim::neg.Scalar",
    operator.eq: "executorch_prim::eq.Scalar",
    operator.ne: "executorch_prim::ne.Scalar",
    operator.gt: "executorch_prim::gt.Scalar",
    operator.lt: "executorch_prim::lt.Scalar",
    operator.ge: "executorch_prim::ge.Scalar",
    operator.le: "executorch_prim::le.Scalar",
    torch.sym_float: "executorch_prim::sym_float.Scalar",
    torch.sym_max: "executorch_prim::sym_max.Scalar",
    torch.sym_min: "executorch_prim::sym_min.Scalar",
    torch.sym_not: "executorch_prim::sym_not.Scalar",
    math.floor: "executorch_prim::floor.Scalar",
    math.ceil: "executorch_prim::ceil.Scalar",
    math.trunc: "executorch_prim::trunc.Scalar",
    round: "executorch_prim::round.Scalar",
}
"""Kernels of functions that return scalars."""

ASSERTIONS: dict[Callable[..., Any], str] = {
    torch.ops.aten._assert_scalar.default: "aten::_assert_scalar",
    torch.ops.aten._assert_async.msg: "aten::_assert_async.msg",
    torch.ops.aten._assert_async.default: "aten::_assert_async.msg",
}
"""Kernels of assertions, which fail a run. Parts of their message may be scalars."""

ON_HOST = "pteron_on_host"
"""Key of `node.meta` of an assertion that the runtime's kernel checks, so that no delegate takes
it."""

RANGES: dict[Callable[..., Any], int | None] = {
    torch.ops.aten.sym_constrain_range.default: None,
    torch.ops.aten.sym_constrain_range_for_size.default: 0,
}
"""Range assertions and their default minimum. A pass rewrites them."""


def kernel_of(node: Node) -> str | None:
    """The kernel of a call; None if it must be compiled."""
    target: Any = node.target
    if target is torch.ops.aten.clone.default:
        return CLONE
    return SCALAR_KERNELS.get(target) or ASSERTIONS.get(target)


def is_assertion(node: Node) -> bool:
    """Whether a call is an assertion."""
    target: Any = node.target
    return target in ASSERTIONS or target in RANGES


def is_executable(node: Node) -> bool:
    """Whether the runtime has a kernel for a call."""
    return kernel_of(node) is not None
