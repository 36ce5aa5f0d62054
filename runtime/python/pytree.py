"""Pytrees of lists, tuples and dicts, and their flat leaves.

A program may store the pytrees of its inputs and outputs as JSON: `[1, node]` with node = `{"type",
"context", "children_spec"}`; a leaf has type null.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

from pteron.runtime.python.errors import InvalidArgumentError, NotSupportedError

_PROTOCOL = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """A node of the tree.

    Attributes:
      kind: `leaf`, `tuple`, `list`, `dict` or `none`.
      keys: keys of a dict, in the order of its children.
      children: subtrees.
    """

    kind: str
    keys: tuple[Any, ...] = ()
    children: tuple[Tree, ...] = ()

    def describe(self) -> str:
        """`(*, {'mask': *})`, where a star is a leaf."""
        inner = [child.describe() for child in self.children]
        if self.kind == "tuple":
            return "(" + ", ".join(inner) + ("," if len(inner) == 1 else "") + ")"
        if self.kind == "list":
            return "[" + ", ".join(inner) + "]"
        if self.kind == "dict":
            pairs = zip(self.keys, inner, strict=True)
            return "{" + ", ".join(f"{key!r}: {value}" for key, value in pairs) + "}"
        return "None" if self.kind == "none" else "*"


def parse(text: str, what: str) -> Tree:
    """The tree of the `what` ("inputs" or "outputs") of a method from the JSON in the program."""
    if not text:
        raise NotSupportedError(
            f"the program does not say how its {what} are nested; use execute() with flat inputs"
        )
    try:
        protocol, node = json.loads(text)
        if protocol != _PROTOCOL:
            raise ValueError(f"protocol {protocol}, expected {_PROTOCOL}")
        return _tree(node)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotSupportedError(
            f"the nesting of the program's {what} cannot be read ({error}); use execute() with "
            "flat inputs"
        ) from error


def flatten(tree: Tree, value: Any) -> list[Any]:
    """The leaves of `value`, which must be nested like `tree`; raises InvalidArgumentError."""
    return list(_leaves(tree, value, "inputs"))


def flatten_call(tree: Tree, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The leaves of the arguments of a call, which must be nested like `tree`."""
    try:
        return flatten(tree, (args, kwargs))
    except InvalidArgumentError as error:
        positional, named = tree.children
        if len(args) == len(positional.children) and set(kwargs) == set(named.keys):
            raise
        raise InvalidArgumentError(
            f"found {len(args)} inputs by position and {sorted(kwargs)} by name; expected, as the"
            f" model was exported, {len(positional.children)} by position and {list(named.keys)}"
            f" by name"
        ) from error


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """Unflattens `leaves`, which must be as many as in `tree`."""
    iterator = iter(leaves)
    value = _build(tree, iterator)
    left = sum(1 for _ in iterator)
    if left:
        raise NotSupportedError(f"{len(leaves)} outputs do not fit {tree.describe()}")
    return value


def _tree(node: dict[str, Any]) -> Tree:
    kind, context = node["type"], node["context"]
    children = tuple(_tree(child) for child in node["children_spec"])
    if kind is None:
        return Tree("leaf")
    if kind in ("builtins.tuple", "builtins.list"):
        return Tree(kind.removeprefix("builtins."), (), children)
    if kind == "builtins.dict":
        keys = json.loads(context) if isinstance(context, str) else context
        if len(keys) != len(children):
            raise ValueError(f"{len(keys)} keys for {len(children)} values")
        return Tree("dict", tuple(keys), children)
    if kind == "builtins.NoneType":
        return Tree("none")
    raise ValueError(f"type {kind}")


def _leaves(tree: Tree, value: Any, where: str) -> Iterator[Any]:
    if tree.kind == "leaf":
        yield value
        return
    if tree.kind == "none":
        if value is not None:
            raise InvalidArgumentError(f"{where}: found {type(value).__name__}, expected None")
        return
    if tree.kind == "dict":
        if not isinstance(value, dict) or set(value) != set(tree.keys):
            found = str(sorted(value)) if isinstance(value, dict) else type(value).__name__
            raise InvalidArgumentError(
                f"{where}: found {found}, expected a dict with keys {list(tree.keys)}"
            )
        for key, child in zip(tree.keys, tree.children, strict=True):
            yield from _leaves(child, value[key], f"{where}[{key!r}]")
        return
    if not isinstance(value, (tuple, list)) or len(value) != len(tree.children):
        found = str(len(value)) if isinstance(value, (tuple, list)) else type(value).__name__
        raise InvalidArgumentError(
            f"{where}: found {found}, expected {len(tree.children)} values nested as "
            f"{tree.describe()}"
        )
    for index, child in enumerate(tree.children):
        yield from _leaves(child, value[index], f"{where}[{index}]")


def _build(tree: Tree, leaves: Iterator[Any]) -> Any:
    if tree.kind == "leaf":
        try:
            return next(leaves)
        except StopIteration:
            raise NotSupportedError("the method has fewer outputs than its pytree") from None
    if tree.kind == "none":
        return None
    children = [_build(child, leaves) for child in tree.children]
    if tree.kind == "dict":
        return dict(zip(tree.keys, children, strict=True))
    return tuple(children) if tree.kind == "tuple" else children
