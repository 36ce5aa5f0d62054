"""Which operators are broken into smaller ones before partitioners see a program."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram

__all__ = ["decompose"]


def decompose(program: ExportedProgram, keep: Iterable[OpOverload]) -> ExportedProgram:
    """The program in functional form, in terms of core ATen and the operators in ``keep``."""
    table = torch.export.default_decompositions()
    for op in keep:
        table.pop(op, None)
    return program.run_decompositions(table)
