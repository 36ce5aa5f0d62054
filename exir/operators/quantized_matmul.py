"""Matmuls of quantized tensors, as torchao exports them, in operators that backends know."""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from pteron.exir.graph.exported_program import copy_program

_aten = torch.ops.aten
#: Rows below which torch's int8 matmul refuses to run on a GPU.
_FEWEST_ROWS = 17


def quantized_matmul() -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions by operator."""
    return {_aten._weight_int4pack_mm.default: _weight_int4pack_mm}


def _weight_int4pack_mm(
    x: torch.Tensor, weight: torch.Tensor, group_size: int, scales_and_zeros: torch.Tensor
) -> torch.Tensor:
    """x @ ((values - 8) * scale + zero), with values unpacked from the layout that
    `_convert_weight_to_int4pack` has on GPUs: [n / 8, k / (16 t), 32, t / 2] int32.

    Thread `4 g + i` of 32 has, of row g, rows of x 2 i + {0, 1, 8, 9, 16, 17, 24, 25} in the
    nibbles {0, 4, 1, 5, 2, 6, 3, 7} of a word.
    """
    tiles, chunks, _, words = weight.shape
    nibbles = [(weight >> 4 * nibble) & 15 for nibble in (0, 4, 1, 5, 2, 6, 3, 7)]
    values = torch.stack(nibbles, -1).to(torch.uint8)
    # n / 8, chunk, g, i, word, (16, 8, 1) of the row of x
    values = values.view(tiles, chunks, 8, 4, words, 2, 2, 2)
    values = values.permute(1, 4, 5, 6, 3, 7, 0, 2).reshape(chunks * words * 32, tiles * 8)
    groups = scales_and_zeros.shape[0]
    scale, zero = scales_and_zeros[:, None].unbind(-1)
    grouped = values.view(groups, group_size, -1).to(x.dtype) - 8
    return torch.mm(x, (grouped * scale + zero).view(values.shape))


def use_int_mm(program: ExportedProgram) -> ExportedProgram:
    """The program with `_int_mm` for matmuls of int8 to int32 by the higher-order operator
    out_dtype, which Inductor has no code for."""
    if not any(map(_is_integer_mm, program.graph.nodes)):
        return program
    program = copy_program(program)
    for node in filter(_is_integer_mm, list(program.graph.nodes)):
        with program.graph.inserting_before(node):
            node.replace_all_uses_with(_int_mm(node, *node.args[2:]))
        program.graph.erase_node(node)
    program.graph_module.recompile()
    return program


def _is_integer_mm(node: Node) -> bool:
    is_out_dtype = node.op == "call_function" and node.target is torch.ops.higher_order.out_dtype
    return is_out_dtype and node.args[:2] == (_aten.mm.default, torch.int32)


def _int_mm(node: Node, left: Node, right: Node) -> Node:
    graph, rows = node.graph, left.meta["val"].shape[0]

    def call(target: OpOverload, *args: Any) -> Node:
        made = graph.call_function(target, args)
        values = [arg.meta["val"] if isinstance(arg, Node) else arg for arg in args]
        made.meta = {**node.meta, "val": target(*values)}
        return made

    if left.meta["val"].device.type != "cuda" or not isinstance(rows, int):
        return call(_aten._int_mm.default, left, right)
    if rows < _FEWEST_ROWS:
        left = call(_aten.constant_pad_nd.default, left, [0, 0, 0, _FEWEST_ROWS - rows])
    made = call(_aten._int_mm.default, left, right)
    return call(_aten.slice.Tensor, made, 0, 0, rows) if rows < _FEWEST_ROWS else made
