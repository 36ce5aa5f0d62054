"""Messages of failed assertions of a model.

torch._check(n <= 5)    ==>    found 7, expected at most 5 (aten._assert_scalar, model.py:9)
"""

import operator
from collections import deque
from typing import Any

import torch
from torch.fx import Node

from pteron.exir.graph import kernels
from pteron.exir.graph.exported_program import source_line

_EXPECTED: dict[Any, str] = {
    operator.ge: "at least ",
    operator.gt: "more than ",
    operator.le: "at most ",
    operator.lt: "less than ",
    operator.eq: "",
    operator.ne: "another number than ",
}


def assertion_message(node: Node) -> list[Any]:
    """The parts of the message: strings, and scalar nodes."""
    condition, *text = (*node.args, *node.kwargs.values())
    if kernels.ON_HOST in node.meta:
        return text  # which contains the source line
    is_wrong = isinstance(condition, Node) and condition.target is torch.sym_not
    compared: Any = condition.args[0] if is_wrong else condition  # type: ignore[union-attr]
    relation = compared.target if isinstance(compared, Node) else None
    if is_wrong and relation is operator.eq:
        relation = operator.ne
        is_wrong = False
    if relation in _EXPECTED and not is_wrong:
        found, limit = compared.args
        said = ["found ", found, f", expected {_EXPECTED[relation]}", limit]
    else:
        said = [text[0] if text else "an assertion failed"]
    line = _line(node)
    return [*said, f" ({node.target}{f', {line}' if line else ''})"]


def _line(node: Node) -> str:
    """The model's source line of a node, or of its nearest input that has one."""
    left, seen = deque([node]), {node}
    while left:
        node = left.popleft()
        if line := source_line(node):
            return line
        for source in node.all_input_nodes:
            if source not in seen:
                seen.add(source)
                left.append(source)
    return ""
