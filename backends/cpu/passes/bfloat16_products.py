"""Rounds the operands of float32 matmuls with constant weights to bfloat16, where that is allowed.

    mm(x, w)    ==>    mm(x.bfloat16(), w.bfloat16()).float()

Sums stay float32. Weights of an odd number of terms, which have no fast kernel, stay as they are.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.backends.aoti.ops.quantized_mm import QUANTIZED_MM
from pteron.backends.aoti.passes.program_constants import ProgramConstants
from pteron.exir.operators.decompositions import replace_by_trace

_aten = torch.ops.aten


def bfloat16_products(program: ExportedProgram) -> None:
    """Rewrites the program's graph."""
    constants = ProgramConstants(program)
    for target in (_aten.mm.default, _aten.addmm.default):
        for node in program.graph.find_nodes(op="call_function", target=target):
            arguments: Sequence[Any] = node.args
            *bias, left, right = arguments
            is_float = right.meta["val"].dtype == torch.float32
            is_even = right.meta["val"].shape[0] % 2 == 0
            if is_float and is_even and not node.kwargs and _is_constant(right, constants):
                replace_by_trace(node, _multiply, [left, right, *bias])
    for node in program.graph.find_nodes(op="call_function", target=QUANTIZED_MM):
        arguments = node.args
        left, weight, *packing = arguments
        if left.meta["val"].dtype == torch.float32:
            replace_by_trace(node, _quantized(packing), [left, weight])
    program.graph_module.recompile()


def _multiply(left: torch.Tensor, right: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
    product = torch.mm(left.bfloat16(), right.bfloat16()).float()
    return product + bias[0] if bias else product


def _quantized(packing: Sequence[Any]) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def multiply(left: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = QUANTIZED_MM(left.bfloat16(), weight, *packing)
        return product.float()

    return multiply


def _is_constant(node: Node, constants: ProgramConstants) -> bool:
    """Whether a weight is a constant, maybe transposed."""
    if node.target in (_aten.permute.default, _aten.permute_copy.default):
        node = node.all_input_nodes[0]
    return node in constants
