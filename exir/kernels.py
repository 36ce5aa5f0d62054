"""Which operators the runtime has kernels for, and how a call of one is written.

`runtime/kernel/kernels.inc` lists the kernels by name. A kernel writes into an output that it is
given, so a functional operator is called through its out variant (`aten::add.out` for
`aten.add.Tensor`); arithmetic on sizes has kernels of its own.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node

__all__ = [
    "COPY",
    "has_kernel",
    "is_executable",
    "kernel_name",
    "kernel_names",
    "out_variant",
]

COPY = "aten::copy_"
"""Writes a tensor into another."""

_TABLE = Path(__file__).parent.parent / "runtime" / "kernel" / "kernels.inc"
_LINE = re.compile(r"^PTERON_KERNEL\(\s*([\w:.]+)", re.MULTILINE)

# Arguments that functional factories have and their out variants take from the output.
_FACTORY_ARGUMENTS = frozenset({"dtype", "layout", "device", "pin_memory"})

_NUMBER_KERNELS: dict[Callable[..., Any], str] = {
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


@cache
def kernel_names() -> frozenset[str]:
    """Names of all kernels, such as `aten::add.out`; empty if the runtime lists none."""
    if not _TABLE.exists():
        return frozenset()
    return frozenset(_LINE.findall(_TABLE.read_text(encoding="utf-8")))


def has_kernel(name: str) -> bool:
    return name in kernel_names()


def _packets(op: OpOverload) -> list[OpOverloadPacket]:
    """Where the out variant may be: with the op, or for a view with its copying form."""
    packets = [op.overloadpacket]
    namespace = getattr(torch.ops, op.namespace)
    copying = getattr(namespace, op._schema.name.split("::")[1] + "_copy", None)
    if op.is_view and copying is not None:
        packets.append(copying)
    return packets


@cache
def out_variant(op: OpOverload) -> OpOverload | None:
    """The overload that writes the results of `op` into given tensors, if there is one."""
    wanted = [(a.name, str(a.type)) for a in op._schema.arguments]
    reduced = [pair for pair in wanted if pair[0] not in _FACTORY_ARGUMENTS]
    for packet in _packets(op):
        for name in sorted(packet.overloads()):
            schema = getattr(packet, name)._schema
            outs = [a for a in schema.arguments if a.is_out]
            given = [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]
            if len(outs) == len(op._schema.returns) > 0 and given in (wanted, reduced):
                return getattr(packet, name)
    return None


def kernel_name(target: Any) -> str | None:
    """Name of the kernel that does what a call of `target` does, whether or not there is one."""
    if target in _NUMBER_KERNELS:
        return _NUMBER_KERNELS[target]
    out = out_variant(target) if isinstance(target, OpOverload) else None
    if out is None:
        return None
    overload = out._schema.overload_name
    return out._schema.name + (f".{overload}" if overload else "")


@cache
def _scalar_variant(op: OpOverload, position: int) -> OpOverload | None:
    """The overload of `op` that takes a number where `op` takes a tensor, if there is one."""
    wanted = [(a.name, str(a.type)) for a in op._schema.arguments]
    wanted[position] = (wanted[position][0], "number")
    for name in op.overloadpacket.overloads():
        overload = getattr(op.overloadpacket, name)
        if [(a.name, str(a.type)) for a in overload._schema.arguments] == wanted:
            return overload
    return None


def overload_called(node: Node) -> Any:
    """The overload that a call is carried out by: its own, or the one for numbers.

    A graph may pass a number where the schema says tensor (`aten.mul.Tensor(x, 2)`).
    """
    op = node.target
    if isinstance(op, OpOverload):
        for position, value in enumerate(node.args):
            kind = str(op._schema.arguments[position].type)
            if kind == "Tensor" and isinstance(value, int | float):
                variant = _scalar_variant(op, position)
                if variant is not None and has_kernel(str(kernel_name(variant))):
                    return variant
    return op


def is_executable(node: Node) -> bool:
    """Whether the runtime has a kernel for a call."""
    name = kernel_name(overload_called(node))
    return name is not None and has_kernel(name)
