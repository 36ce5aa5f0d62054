"""The nested lists, tuples, dicts and classes of an exported program, and the flat values in them.

A program may say as JSON how its flat inputs and outputs were nested:
`[1, node]` with node = `{"type", "context", "children_spec"}`; a leaf has type null. Classes are
not imported: a named tuple is one of the same fields, other classes are `NamedValues`.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pteron.runtime.python.errors import InvalidArgumentError, NotSupportedError

_PROTOCOL = 1


class NamedValues(dict[str, Any]):
    """What a class with named fields held: a ModelOutput of transformers, a dataclass, an
    OrderedDict.

    `out.logits`, `out["logits"]` and, by position, `out[0]`, `out[:2]`. Where torch is imported,
    torch.utils._pytree goes into it, as into a dict.
    """

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | slice):
            return tuple(self.values())[key]
        return super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no value {name!r}; there are {', '.join(self)}") from None


def _register() -> None:
    """Tells torch, if it is there, what NamedValues are made of."""
    torch_pytree: Any = sys.modules.get("torch.utils._pytree")
    if NamedValues in getattr(torch_pytree, "SUPPORTED_NODES", [NamedValues]):
        return
    with contextlib.suppress(ValueError):  # another thread has done so
        torch_pytree.register_pytree_node(
            NamedValues,
            lambda named: (list(named.values()), list(named)),
            lambda values, keys: NamedValues(zip(keys, values, strict=True)),
            serialized_type_name=f"{NamedValues.__module__}.{NamedValues.__name__}",
            flatten_with_keys_fn=lambda named: (
                [(torch_pytree.MappingKey(key), value) for key, value in named.items()],
                list(named),
            ),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """A node of the tree.

    Attributes:
      kind: `leaf`, `tuple`, `list`, `dict`, `namedtuple`, `class` (an OrderedDict, too) or `none`.
      keys: of a dict, or the fields, in the order of the children.
      children: trees of what is inside.
      none: of a class, the fields that were None.
      type: of a namedtuple, a class with its fields.
    """

    kind: str
    keys: tuple[Any, ...] = ()
    children: tuple[Tree, ...] = ()
    none: tuple[str, ...] = ()
    type: Any = None

    def __post_init__(self) -> None:
        if len(set(self.keys)) != len(self.keys):
            raise ValueError(f"found a key twice in {list(self.keys)}")

    def describe(self) -> str:
        """`(*, {'mask': *})`, where a star is a leaf."""
        inner = [child.describe() for child in self.children]
        if self.kind == "tuple":
            return "(" + ", ".join(inner) + ("," if len(inner) == 1 else "") + ")"
        if self.kind == "list":
            return "[" + ", ".join(inner) + "]"
        if self.kind == "namedtuple":
            return "(" + ", ".join(map("{}={}".format, self.keys, inner)) + ")"
        if self.keys or self.kind == "dict":
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
        tree = _tree(node)
        if what == "inputs" and len(tree.children) != 2:
            raise ValueError(f"{tree.describe()}, expected arguments by position and by name")
        return tree
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotSupportedError(
            f"the nesting of the program's {what} cannot be read ({error}); use execute() with "
            "flat inputs"
        ) from error


def flatten(tree: Tree, value: Any) -> list[Any]:
    """The leaves of `value`, which must be nested like `tree`; raises InvalidArgumentError."""
    return list(_leaves(tree, value, "inputs"))


def flatten_call(
    tree: Tree, args: tuple[Any, ...], kwargs: dict[str, Any], names: Sequence[str] = ()
) -> list[Any]:
    """The leaves of the arguments of a call, which must be nested like `tree`.

    An argument that was exported by position may be given by name.

    Args:
      names: of the leaves, as in `MethodMeta.input_names`.
    """
    positional, named = tree.children
    given = args
    if len(args) < len(positional.children):
        parameters = _parameters(positional, names)[len(args) :]
        if all(name in kwargs for name in parameters):
            kwargs = dict(kwargs)
            given = args + tuple(kwargs.pop(name) for name in parameters)
    if len(given) == len(positional.children) and set(kwargs) == set(named.keys):
        return flatten(tree, (given, kwargs))
    known = _parameters(positional, names)
    missing = [name for name in (*known[len(args) :], *named.keys) if name not in kwargs]
    unknown = [name for name in kwargs if name not in (*known[len(args) :], *named.keys)]
    raise InvalidArgumentError(
        f"found {len(args)} inputs by position and {sorted(kwargs)} by name; expected, as the"
        f" model was exported, {len(known)} by position ({', '.join(known)}; or by name) and"
        f" {list(named.keys)} by name"
        + (f"; missing: {', '.join(missing)}" if missing else "")
        + (f"; unknown: {', '.join(unknown)}" if unknown else "")
    )


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
    if kind == "collections.deque":
        return Tree("list", (), children)
    if kind == "builtins.NoneType":
        return Tree("none")
    keys = json.loads(context) if isinstance(context, str) else context
    none: tuple[str, ...] = ()
    if kind == "collections.defaultdict" and isinstance(keys, dict):
        keys = keys["dict_context"]
    elif kind != "builtins.dict" and isinstance(keys, list) and [*map(type, keys)] == [list] * 2:
        # Of a dataclass, the fields that are None; of a DynamicCache, its windows.
        keys, none = keys[0], tuple(name for name in keys[1] if isinstance(name, str))
    if kind in ("builtins.dict", "collections.OrderedDict", "collections.defaultdict"):
        if len(keys) != len(children):
            raise ValueError(f"{len(keys)} keys for {len(children)} values")
        keys = [tuple(key) if isinstance(key, list) else key for key in keys]
        named = kind == "collections.OrderedDict" and all(isinstance(key, str) for key in keys)
        return Tree("class" if named else "dict", tuple(keys), children)
    named = isinstance(keys, list) and len(keys) == len(children)
    if not named or not all(isinstance(key, str) for key in keys):
        return Tree("tuple", (), children)  # a class that says nothing of its fields
    if kind == "collections.namedtuple":
        make: Any = collections.namedtuple
        return Tree("namedtuple", tuple(keys), children, (), make("Outputs", keys))
    return Tree("class", tuple(keys), children, none)


def _parameters(positional: Tree, names: Sequence[str]) -> list[str]:
    """The names of arguments by position: `batch` of one whose leaves are `batch_ids`, ..."""
    leaves = iter(names)
    found = []
    for number, tree in enumerate(positional.children):
        suffixes = list(_suffixes(tree))
        of_leaves = list(itertools.islice(leaves, len(suffixes)))
        stems = {
            name.removesuffix(suffix)
            for name, suffix in zip(of_leaves, suffixes, strict=False)
            if name.endswith(suffix)
        }
        found.append(stems.pop() if len(stems) == 1 else f"input {number}")
    return found


def _suffixes(tree: Tree) -> Iterator[str]:
    """What torch adds to an argument's name for each leaf in it."""
    if tree.kind == "leaf":
        yield ""
    keys = tree.keys or range(len(tree.children))
    for key, child in zip(keys, tree.children, strict=True):
        part = re.sub(r"[^a-zA-Z0-9]+", "_", str(key)).lower()
        yield from (f"_{part}{rest}" for rest in _suffixes(child))


def _leaves(tree: Tree, value: Any, where: str) -> Iterator[Any]:
    if tree.kind == "leaf":
        yield value
        return
    if tree.kind == "none":
        if value is not None:
            raise InvalidArgumentError(f"{where}: found {type(value).__name__}, expected None")
        return
    if tree.keys == ("key_cache", "value_cache") and hasattr(value, "layers"):
        layers = [layer for layer in value.layers if layer.keys is not None]  # a DynamicCache
        value = {"key_cache": [x.keys for x in layers], "value_cache": [x.values for x in layers]}
    if tree.kind == "class" and not isinstance(value, Mapping):
        fields = {key: getattr(value, key) for key in tree.keys if hasattr(value, key)}
        value = fields if fields or not tree.keys else value
    if tree.kind in ("dict", "class"):
        if not isinstance(value, Mapping) or set(value) != set(tree.keys):
            found = str(sorted(value)) if isinstance(value, Mapping) else type(value).__name__
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
    if tree.kind == "class":
        _register()
        values = NamedValues(zip(tree.keys, children, strict=True))
        return NamedValues({**values, **dict.fromkeys(tree.none)}) if tree.none else values
    if tree.kind == "namedtuple":
        return tree.type(*children)
    return tuple(children) if tree.kind == "tuple" else children
