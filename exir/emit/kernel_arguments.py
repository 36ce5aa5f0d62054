"""The arguments of a kernel call, as the runtime expects them.

Order is that of the out variant's schema, defaults included, then its out arguments, then what it
returns, which are the out arguments again (several of them as one list).
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch._ops import OpOverload
from torch.fx import Node

from pteron.exir.emit.value_table import ValueTable

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


class Values(Protocol):
    """Where arguments come from.

    Attributes:
      table: where literals are added.
    """

    table: ValueTable

    def read(self, node: Node) -> int:
        """The number of a node's value."""

    def constant(self, value: torch.Tensor) -> int:
        """The number of a constant tensor."""


def _list(value: Any, kind: str, values: Values) -> int:
    """`kind` is the item type of a schema, such as `int` or `Optional[Tensor]`."""
    table = values.table
    if not isinstance(value, list | tuple):
        value = [value]  # int[2] and the like accept one number for all
    match kind:
        case "Tensor":
            return table.tensor_list([values.read(item) for item in value])
        case "Optional[Tensor]":
            return table.optional_tensor_list(
                [-1 if item is None else values.read(item) for item in value]
            )
        case "int" | "SymInt":
            return table.int_list(
                [values.read(i) if isinstance(i, Node) else table.literal(int(i)) for i in value]
            )
        case "float":
            return table.double_list(value)
        case "bool":
            return table.bool_list(value)
    raise TypeError(f"a kernel cannot take a list of {kind}")


def _argument(value: Any, kind: str, values: Values, node: Node) -> int:
    if isinstance(value, Node):
        return values.read(value)
    if kind.startswith("Optional[") and kind.endswith("]"):
        kind = kind.removeprefix("Optional[").removesuffix("]")
        if value is None:
            return values.table.literal(None)
    if kind.startswith("List["):
        return _list(value, kind.removeprefix("List[").removesuffix("]"), values)
    if kind == "Tensor":
        return values.constant(number_as_tensor(value, node))
    if kind == "float" and isinstance(value, int | float):
        value = float(value)
    return values.table.literal(value)


def number_as_tensor(value: int | float | bool, node: Node) -> torch.Tensor:
    """A 0-d tensor that does in a call what a number does there.

    As exact as can be without changing the type of the result: a number does not widen the type of
    tensors of its kind, and neither does a 0-d tensor unless all are.
    """
    others = [n.meta["val"] for n in node.all_input_nodes]
    others = [item for item in others if isinstance(item, torch.Tensor)]

    def result(number: torch.Tensor | int | float | bool) -> torch.dtype:
        # Of tensors with dimensions if there are any: those decide.
        wide = [item for item in others if item.dim()] or others
        found = torch.result_type(wide[0], number)
        for item in wide[1:]:
            found = torch.promote_types(found, torch.result_type(item, number))
        return found

    exact = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
    if not others or result(exact) == result(value):
        return exact
    return torch.tensor(value, dtype=result(value))


def kernel_arguments(
    op: OpOverload, out: OpOverload, node: Node, outputs: list[int], values: Values
) -> list[int]:
    """Numbers of the values that a call of `out` takes to do what `node` does.

    Args:
      op: the functional overload that `node` is a call of.
      out: its out variant.
      node: the call.
      outputs: numbers of the values that it writes.
      values: where arguments come from.
    """
    given = named_arguments(op, node)
    outs = [a for a in out._schema.arguments if a.is_out]
    table = values.table
    is_list = len(outs) == 1 and str(outs[0].type) == "List[Tensor]"
    results = iter([table.tensor_list(outputs)] if is_list else outputs)
    arguments = [
        next(results) if a.is_out else _argument(given[a.name], str(a.type), values, node)
        for a in out._schema.arguments
    ]
    is_one = len(outputs) == 1 and not is_list
    return [*arguments, outputs[0] if is_one else table.tensor_list(outputs)]


def write_back_arguments(state: int, value: int, table: ValueTable) -> list[int]:
    """Arguments of `aten::copy_`, which writes `value` into `state`."""
    return [state, value, table.literal(False), state]
