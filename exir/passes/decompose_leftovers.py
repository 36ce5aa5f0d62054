"""Breaks up operators that no backend took and no kernel does."""

from __future__ import annotations

from torch._ops import OpOverload
from torch.export import ExportedProgram

from pteron.exir import kernels
from pteron.exir.backend.utils import get_non_lowered_nodes
from pteron.exir.decompositions import decompose_nodes, decomposition_table
from pteron.exir.passes.pass_base import ProgramPass

__all__ = ["DecomposeLeftovers"]


class DecomposeLeftovers(ProgramPass):
    """Decomposes calls that are left to the runtime and have no kernel there.

    before:  y = aten.addcmul(x, a, b)     after:  m = aten.mul(a, b); y = aten.add(x, m)

    Partitioners see operators whole if they ask for it; this is for those that they left all the
    same. Operators with a kernel, and those that cannot be decomposed, stay.
    """

    def call(self, program: ExportedProgram) -> ExportedProgram:
        left = {n for n in get_non_lowered_nodes(program.graph) if not kernels.is_executable(n)}
        if not left:
            return program
        table = decomposition_table()
        for op in [op for op in table if isinstance(op, OpOverload)]:
            name = kernels.kernel_name(op)
            if name is not None and kernels.has_kernel(name):
                table.pop(op)
        return decompose_nodes(program, left.__contains__, table)
