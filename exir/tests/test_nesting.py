"""How inputs and outputs were nested: as a program says it, and as the runtime reads it."""

import collections
import dataclasses
import enum
import json
from typing import Any

import pytest
import torch

from pteron.exir.emit.method_emitter import container_types
from pteron.runtime import InvalidArgumentError
from pteron.runtime.python import pytree


@dataclasses.dataclass
class Fields:
    a: Any
    b: Any


class Opaque:
    pass


def tree_of(value: Any) -> pytree.Tree:
    """As a program says how `value` is nested."""
    spec = torch.utils._pytree.tree_structure(value)
    return pytree.parse(container_types(spec, spec, []).outputs, "outputs")


def test_classes_with_fields() -> None:
    """Those of the model are not imported; what comes back reads as they do."""
    torch.export.register_dataclass(Fields, serialized_type_name="test_nesting.Fields")
    tree = tree_of(Fields([1, 2], 3))
    found = pytree.unflatten(tree, [1, 2, 3])
    assert type(found) is pytree.NamedValues
    assert found.a == found["a"] == found[0] == [1, 2] and found.b == 3 and found[1:] == (3,)
    assert dict(found) == {"a": [1, 2], "b": 3}
    with pytest.raises(AttributeError, match="no value 'c'; there are a, b"):
        found.c  # noqa: B018
    for given in (Fields([1, 2], 3), found, {"b": 3, "a": [1, 2]}):
        assert pytree.flatten(tree, given) == [1, 2, 3]
    with pytest.raises(InvalidArgumentError, match="found Opaque, expected a dict with keys"):
        pytree.flatten(tree, Opaque())
    absent = pytree.unflatten(tree_of(Fields(1, None)), [1])
    assert absent.a == 1 and absent.b is None and tree_of(Fields(1, None)).describe() == "{'a': *}"


def test_torch_goes_into_values_with_names() -> None:
    """As into what the model returned: users move and compare outputs with tree_map."""
    value = collections.OrderedDict(b=[1, 2], a=3)
    found = pytree.unflatten(tree_of(value), [1, 2, 3])
    leaves = torch.utils._pytree.tree_leaves(found)
    assert leaves == torch.utils._pytree.tree_leaves(value) == [1, 2, 3]
    doubled = torch.utils._pytree.tree_map(lambda leaf: 2 * leaf, found)
    assert type(doubled) is pytree.NamedValues and doubled == {"b": [2, 4], "a": 6}
    paths = [torch.utils._pytree.keystr(path) for path, _ in _with_paths(found)]
    assert paths == ["['b'][0]", "['b'][1]", "['a']"]
    assert pytree.flatten(tree_of(found), found) == [1, 2, 3]  # as an input of another model


def _with_paths(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_flatten_with_path(value)[0]


def test_named_tuples_and_other_containers_of_python_and_torch() -> None:
    point = collections.namedtuple("point", "x y")  # noqa: PYI024
    found = pytree.unflatten(tree_of(point(1, 2)), [1, 2])
    assert found == (1, 2) and (found.x, found.y) == (1, 2)
    assert pytree.flatten(tree_of(point(1, 2)), point(3, 4)) == [3, 4]
    assert tree_of(point(1, 2)).describe() == "(x=*, y=*)"
    found = pytree.unflatten(tree_of(torch.max(torch.ones(2, 2), 0)), [5, 6])
    values, indices = found
    assert (values, indices) == (5, 6) == (found.values, found.indices)
    for value in (collections.OrderedDict(b=1, a=2), collections.defaultdict(list, b=1, a=2)):
        assert pytree.unflatten(tree_of(value), [1, 2]) == {"b": 1, "a": 2}
    found = pytree.unflatten(tree_of(collections.OrderedDict(out=1, aux=2)), [1, 2])
    assert found.out == found["out"] == found[0] == 1 and found.aux == found[1] == 2
    numbered = collections.OrderedDict({1: "a", 0: "b"})
    assert pytree.unflatten(tree_of(numbered), ["a", "b"]) == {1: "a", 0: "b"}
    assert pytree.unflatten(tree_of(collections.deque([1, 2])), [1, 2]) == [1, 2]
    assert pytree.unflatten(tree_of({(1, 2): 3, (4, 5): 6}), [3, 6]) == {(1, 2): 3, (4, 5): 6}
    assert pytree.unflatten(tree_of(torch.Size([2, 3])), [2, 3]) == (2, 3)


@pytest.mark.parametrize("value", [([1, 2.0], {"a": (3,), 5: []}), None])
def test_a_nesting_is_written_as_torch_writes_it(value: Any) -> None:
    spec = torch.utils._pytree.tree_structure(value)
    assert container_types(spec, spec, []).inputs == torch.utils._pytree.treespec_dumps(spec)


def test_what_is_written_has_no_addresses() -> None:
    """Keys and contexts that JSON does not have are enumerators, or written as their type."""

    class Level(enum.Enum):
        LOW = 1

    for key, text in ((Level.LOW, "Level.LOW"), (Opaque(), "Opaque")):
        spec = torch.utils._pytree.tree_structure({key: 1})
        types = container_types(spec, spec, [])
        assert types.output_names == [text] and json.loads(types.outputs)[1]["context"] == (
            json.dumps([text])
        )
