"""Which operators are broken into smaller ones before partitioners see a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch._ops import OpOverload
from torch.export import ExportedProgram

__all__ = ["decompose", "decomposition_table", "functionalize"]


def decomposition_table() -> dict[OpOverload, Any]:
    """Torch's table down to core ATen operators, and attention down to matrix products."""
    table = torch.export.default_decompositions()
    table.update(
        get_decompositions([torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default])
    )
    return table


def functionalize(program: ExportedProgram) -> ExportedProgram:
    """The program without changes in place, its operators whole."""
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
                return program.run_decompositions({})
    return program


def decompose(program: ExportedProgram, keep: Iterable[OpOverload]) -> ExportedProgram:
    """The program in functional form, in terms of core ATen and the operators in ``keep``."""
    table = decomposition_table()
    for op in keep:
        table.pop(op, None)
    return program.run_decompositions(table)
