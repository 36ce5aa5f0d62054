"""Which integers a method takes: those that index a dimension, or whose bounds the model checks.

Follows values through views, copies, selections and added constants, not through other arithmetic.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from pteron.exir.graph.shape_bounds import ShapeBounds

# Operators of (self, dim, index), and those of (self, indices), with one for each dimension.
_ALONG = frozenset(
    "gather index_add index_copy index_fill index_reduce index_select scatter scatter_add"
    " scatter_reduce".split()
)
_LISTS = frozenset("index index_put _unsafe_index _unsafe_index_put".split())

# Operators whose results are elements of these arguments.
_SAME = {
    **dict.fromkeys(
        "_to _to_dim_order _unsafe_index _unsafe_view alias amax amin clone constant_pad_nd detach"
        " diagonal expand flip gather index index_select lift_fresh masked_fill max min permute"
        " repeat reshape roll select slice split split_with_sizes squeeze t to transpose unbind"
        " unfold unsqueeze view".split(),
        ("self",),
    ),
    **dict.fromkeys(("cat", "stack"), ("tensors",)),
    **dict.fromkeys(("maximum", "minimum", "where"), ("self", "other")),
    **dict.fromkeys(("select_scatter", "slice_scatter"), ("self", "src")),
}


_MANY = 1 << 62  # not checked by the model


def limits(node: Node, bounds: ShapeBounds) -> Iterator[tuple[Node, int, int]]:
    """Arguments of a call, with the least and the greatest value that it takes in them."""
    name, given = _call(node)
    if name == "embedding":
        yield from _index(given["indices"], given["weight"], 0, bounds)
    elif name in _ALONG and isinstance(given["dim"], int):
        yield from _index(given["index"], given["self"], given["dim"], bounds)
    elif name in _LISTS:
        dim = 0
        for index in given["indices"]:
            yield from _index(index, given["self"], dim, bounds)
            found = _tensor(index)
            is_mask = found is not None and not _is_integer(index)
            dim += found.dim() if found is not None and is_mask else 1
    elif name in ("item", "_local_scalar_dense") and isinstance(node.meta["val"], torch.SymInt):
        known = bounds.range_of(node.meta["val"])
        if known.upper < _MANY:
            yield given["self"], int(max(known.lower, 0)), int(known.upper)


def passed(node: Node) -> Iterator[tuple[Node, int]]:
    """Arguments of a call of which all results are elements, with the integer that is added."""
    name, given = _call(node)
    for value in pytree.tree_leaves([given.get(argument) for argument in _SAME.get(name, ())]):
        if _is_integer(value):
            yield value, 0
    sign = {"add": 1, "sub": -1}.get(name)
    if sign and type(given["other"]) is int and given.get("alpha", 1) == 1:
        yield given["self"], sign * given["other"]


def _call(node: Node) -> tuple[str, dict[str, Any]]:
    """An operator of aten without overload and suffixes, and its arguments by name."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return "", {}
    if target in (torch.ops.aten.view.dtype, torch.ops.aten.max.dim, torch.ops.aten.min.dim):
        return "", {}  # other values, or also indices
    schema = target._schema
    name = schema.name.partition("::")[2].removesuffix("_copy").rstrip("_")
    names = [argument.name for argument in schema.arguments]
    return name, {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _tensor(value: Any) -> torch.Tensor | None:
    found = value.meta.get("val") if isinstance(value, Node) else None
    return found if isinstance(found, torch.Tensor) else None


def _is_integer(value: Any) -> bool:
    """Of a dtype that indexes; bool and uint8 are masks."""
    found = _tensor(value)
    return found is not None and found.dtype in (torch.int64, torch.int32, torch.int16, torch.int8)


def _index(index: Any, of: Any, dim: int, bounds: ShapeBounds) -> Iterator[tuple[Node, int, int]]:
    indexed = _tensor(of)
    if _is_integer(index) and indexed is not None and indexed.dim():
        yield index, 0, bounds.lower(indexed.shape[dim]) - 1
