"""Partition boundaries: a line per adjacent call outside the partition, with the reason.

after lowered_module_0 of BlasBackend
before %relu (aten.relu.default, model.py:12): no partitioner took it
"""

from collections.abc import Callable, Iterable, Sequence

from torch.fx import Node

from pteron.exir.backend.partitioner import DELEGATION_TAG, LEFT_OUT_REASON
from pteron.exir.backend.partitions import is_shape_arithmetic
from pteron.exir.backend.utils import is_delegate_call
from pteron.exir.graph.exported_program import source_line
from pteron.exir.graph.lowered_backend_module import lowered_module_of

BOUNDARIES = "partition_boundaries"
"""The key of these lines in the meta of a partition's graph module."""


def boundaries_of_call(call: Node) -> list[str]:
    """The boundaries of a lowered partition."""
    lines = [line for arg in call.all_input_nodes for line in _line("after", arg)]
    for result in call.users:
        for user in result.users:
            lines += _line("before", user)
    return list(dict.fromkeys(lines))


def boundaries_of_nodes(nodes: Sequence[Node], backend_of_tag: Callable[[str], str]) -> list[str]:
    """The boundaries of a tagged partition before lowering."""
    inside = set(nodes)

    def line(where: str, node: Node) -> Iterable[str]:
        tag = node.meta.get(DELEGATION_TAG)
        if tag is not None and node.op == "call_function":
            return [f"{where} {tag} of {backend_of_tag(tag)}"]
        return [] if is_shape_arithmetic(node) else _line(where, node)

    lines: list[str] = []
    for node in nodes:
        for other in node.all_input_nodes:
            lines += [] if other in inside else line("after", other)
    for node in nodes:
        for other in node.users:
            lines += [] if other in inside else line("before", other)
    return list(dict.fromkeys(lines))


def _line(where: str, node: Node) -> Iterable[str]:
    if node.op != "call_function":
        return
    source = node.args[0] if node.args else None
    if is_delegate_call(source):
        node = source  # type: ignore[assignment]
    if is_delegate_call(node):
        module = lowered_module_of(node)
        attribute = node.args[0]
        assert isinstance(attribute, Node)
        yield f"{where} {attribute.target} of {module.backend_id}"
        return
    line = source_line(node)
    reason = node.meta.get(LEFT_OUT_REASON, "no partitioner took it")
    yield f"{where} %{node.name} ({node.target}{', ' + line if line else ''}): {reason}"
