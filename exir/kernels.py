"""Which operators the runtime has kernels for, and how a call of one is written.

``runtime/kernel/kernels.inc`` lists the kernels by name; a kernel writes into an output that it is
given (``aten::add.out``), so a functional operator is called through its out variant.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import torch
from torch._ops import OpOverload, OpOverloadPacket

__all__ = ["has_kernel", "kernel_names", "out_variant", "qualified_name"]

_TABLE = Path(__file__).parent.parent / "runtime" / "kernel" / "kernels.inc"
_LINE = re.compile(r"^PTERON_KERNEL\(\s*([\w:.]+)", re.MULTILINE)

# Arguments that functional factories have and their out variants take from the output.
_FACTORY_ARGUMENTS = frozenset({"dtype", "layout", "device", "pin_memory"})


@cache
def kernel_names() -> frozenset[str]:
    """Names of all kernels, such as ``aten::add.out``; empty if the runtime lists none."""
    if not _TABLE.exists():
        return frozenset()
    return frozenset(_LINE.findall(_TABLE.read_text(encoding="utf-8")))


def qualified_name(op: OpOverload) -> str:
    """``aten::add.out``; the default overload has no suffix."""
    return op._schema.name + (f".{op._schema.overload_name}" if op._schema.overload_name else "")


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
    """The overload that writes the results of ``op`` into given tensors, if there is one."""
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
