"""The graph of a method as named data of a program, for viewers.

`runtime/schema/README.md` describes the bytes; `exir/emit/model_graph.py` makes the nodes.
"""

import json
import zlib
from dataclasses import asdict, dataclass, field, fields
from typing import Any

KEY = "model_graph/"
"""Of the named data, with the method's name after it."""

_VERSION = 1
_MOST_BYTES = 1 << 26
"""Uncompressed, so that a small file cannot fill the memory of its reader."""


@dataclass(frozen=True)
class GraphNode:
    """An input, a weight or the call of an operator.

    Attributes:
      name: of an input or weight as in the model, otherwise of the node.
      op: `input`, `weight`, `buffer`, `constant`, or an operator such as `aten.add.Tensor`.
      inputs: indices of the nodes whose results it reads, all before it.
      shapes: of its tensors, such as `float32[2, 3]`.
      nbytes: of its tensors at the upper bounds of their sizes.
      source: the line of the model, such as `model.py:41`.
      module: path of the module, such as `layers.0.conv`.
      delegate: index in the method of the delegate that it is in; -1 outside.
      range: least and greatest value of an input of integers, if the model's use of it tells.
    """

    name: str
    op: str
    inputs: list[int] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)
    nbytes: int = 0
    source: str = ""
    module: str = ""
    delegate: int = -1
    range: list[int] = field(default_factory=list)


def pack(nodes: list[GraphNode]) -> bytes:
    """The bytes of a graph. Fields with their default are left out."""
    default = asdict(GraphNode("", ""))
    tables = [{k: v for k, v in asdict(node).items() if v != default[k]} for node in nodes]
    text = json.dumps({"version": _VERSION, "nodes": tables}, separators=(",", ":"))
    return zlib.compress(text.encode(), 9)


def unpack(data: bytes | memoryview) -> list[GraphNode]:
    """The nodes. ValueError for bytes that are no graph."""
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(data, _MOST_BYTES)
        if not inflate.eof:
            raise ValueError(f"it is cut off, or has more than {_MOST_BYTES} bytes")
        found = json.loads(text)
        if found["version"] != _VERSION:
            raise ValueError(f"found version {found['version']}, expected {_VERSION}")
        nodes = [_node(table, index) for index, table in enumerate(found["nodes"])]
    except (zlib.error, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the graph in the file cannot be read: {error!r}") from error
    return nodes


def _node(table: dict[str, Any], index: int) -> GraphNode:
    known = {f.name: table[f.name] for f in fields(GraphNode) if f.name in table}
    node = GraphNode(**{"name": "", "op": "", **known})
    texts = [node.name, node.op, node.source, node.module, *node.shapes]
    numbers = [*node.inputs, node.nbytes, node.delegate, *node.range]
    if not all(type(t) is str for t in texts) or not all(type(n) is int for n in numbers):
        raise ValueError(f"node {index} has a field of another type")
    if not all(0 <= i < index for i in node.inputs):
        raise ValueError(f"node {index} reads {node.inputs}, which are not before it")
    return node
