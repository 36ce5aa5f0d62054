"""The arguments of a kernel call, as the runtime expects them.

Order is that of the out variant's schema, defaults included, then its out arguments, then what it
returns, which are the out arguments again (several of them as one list).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from exir.emit.value_table import ValueTable

__all__ = ["kernel_arguments", "named_arguments"]


def named_arguments(op: OpOverload, node: Node) -> dict[str, Any]:
    """Arguments of a call by name, defaults filled in."""
    arguments = {}
    for position, argument in enumerate(op._schema.arguments):
        if position < len(node.args) and not argument.kwarg_only:
            arguments[argument.name] = node.args[position]
        elif argument.name in node.kwargs:
            arguments[argument.name] = node.kwargs[argument.name]
        else:
            arguments[argument.name] = argument.default_value
    return arguments


def _list(value: Any, kind: str, table: ValueTable, slot: Callable[[Node], int]) -> int:
    """``kind`` is the item type of a schema, such as ``int`` or ``Optional[Tensor]``."""
    if not isinstance(value, list | tuple):
        value = [value]  # int[2] and the like accept one number for all
    match kind:
        case "Tensor":
            return table.tensor_list([slot(item) for item in value])
        case "Optional[Tensor]":
            return table.optional_tensor_list([-1 if i is None else slot(i) for i in value])
        case "int" | "SymInt":
            return table.int_list(
                [slot(i) if isinstance(i, Node) else table.literal(int(i)) for i in value]
            )
        case "float":
            return table.double_list(value)
        case "bool":
            return table.bool_list(value)
    raise TypeError(f"a kernel cannot take a list of {kind}")


def _argument(value: Any, kind: str, table: ValueTable, slot: Callable[[Node], int]) -> int:
    if isinstance(value, Node):
        return slot(value)
    if kind.startswith("Optional[") and kind.endswith("]"):
        kind = kind.removeprefix("Optional[").removesuffix("]")
        if value is None:
            return table.literal(None)
    if kind.startswith("List["):
        return _list(value, kind.removeprefix("List[").removesuffix("]"), table, slot)
    if kind == "float" and isinstance(value, int | float):
        value = float(value)
    return table.literal(value)


def kernel_arguments(
    op: OpOverload, out: OpOverload, node: Node, outputs: list[int], table: ValueTable,
    slot: Callable[[Node], int],
) -> list[int]:  # fmt: skip
    """Numbers of the values that a call of ``out`` takes to do what ``node`` (of ``op``) does.

    Args:
      op: what the graph calls.
      out: its out variant.
      node: the call.
      outputs: numbers of the values that it writes.
      table: where literals are added.
      slot: the number of a node's value.
    """
    given = named_arguments(op, node)
    outs = [a for a in out._schema.arguments if a.is_out]
    is_list = len(outs) == 1 and str(outs[0].type) == "List[Tensor]"
    results = iter([table.tensor_list(outputs)] if is_list else outputs)
    arguments = [
        next(results) if a.is_out else _argument(given[a.name], str(a.type), table, slot)
        for a in out._schema.arguments
    ]
    is_one = len(outputs) == 1 and not is_list
    return [*arguments, outputs[0] if is_one else table.tensor_list(outputs)]


def write_back_arguments(state: int, value: int, table: ValueTable) -> list[int]:
    """Arguments of ``aten::copy_``, which writes ``value`` into ``state``."""
    assert torch.ops.aten.copy_.default._schema.arguments[2].name == "non_blocking"
    return [state, value, table.literal(False), state]
