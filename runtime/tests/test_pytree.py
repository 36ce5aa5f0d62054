"""Nested inputs and outputs: Method.__call__ and what it is made of."""

import json
from typing import Any

import pytest
import torch

from pteron.runtime import InvalidArgumentError, NotSupportedError, Runtime
from pteron.runtime.python import pytree
from pteron.runtime.tests.program_builder import MethodBuilder, build_program

LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}


def node(kind: str, children: list[Any], context: Any = "null") -> dict[str, Any]:
    return {"type": f"builtins.{kind}", "context": context, "children_spec": children}


def text(tree: Any) -> str:
    return json.dumps([1, tree])


ARGUMENTS = node(
    "tuple",
    [node("tuple", [node("list", [LEAF, LEAF])]), node("dict", [LEAF], json.dumps(["mask"]))],
)
RESULTS = node("dict", [node("tuple", [LEAF]), LEAF], json.dumps(["pair", "other"]))


def nested_method() -> Any:
    method = MethodBuilder()
    inputs = [method.input([2]) for _ in range(3)]
    y = method.planned([2])
    method.clone(inputs[1], y)
    method.output(y, inputs[2])
    method.containers(text(ARGUMENTS), text(RESULTS), ["pair_0", "pair_1", "mask"])
    return Runtime.get().load_program(build_program(method)).load_method("forward")


def test_call_takes_and_returns_what_forward_does() -> None:
    two, three, mask = torch.tensor([2.0, 2]), torch.tensor([3.0, 3]), torch.tensor([1.0, 0])
    result = nested_method()([two, three], mask=mask)
    assert list(result) == ["pair", "other"]
    assert isinstance(result["pair"], tuple) and result["pair"][0].tolist() == [3, 3]
    assert result["other"].tolist() == [1, 0]


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        (([1],), {"mask": 1}, r"inputs\[0\]\[0\]: found 1, expected 2 values nested as \[\*, \*\]"),
        (
            (),
            {"mask": 1},
            r"found 0 inputs by position .*expected.* 1 by position .*missing: pair$",
        ),
        (([1, 2],), {}, r"1 inputs by position and \[\] by name; .*\['mask'\].*missing: mask$"),
        (([1, 2],), {"mask": 1, "more": 2}, r"\['mask', 'more'\] by name.*unknown: more$"),
        (([1, 2],), {"mask": 1, "pair": 2}, "unknown: pair$"),
        ((), {"mask": 1, "pair": [1]}, r"inputs\[0\]\[0\]: found 1, expected 2 values"),
        ((3,), {"mask": 1}, r"inputs\[0\]\[0\]: found int"),
    ],
)
def test_other_nestings_are_errors(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        nested_method()(*args, **kwargs)


def test_inputs_by_name() -> None:
    method = nested_method()
    two, three, mask = (torch.full((2,), value) for value in (2.0, 3.0, 1.0))
    for result in (method([two, three], mask=mask), method(mask=mask, pair=[two, three])):
        assert result["pair"][0].tolist() == [3, 3]
    y, other = method.execute({"mask": mask, "pair_1": three, "pair_0": two})
    assert (y.tolist(), other.tolist()) == ([3, 3], [1, 1])
    with pytest.raises(
        InvalidArgumentError, match="found inputs mask, pair; expected all of pair_0"
    ):
        method.execute({"mask": mask, "pair": two})


def test_without_a_nesting_in_the_program() -> None:
    method = MethodBuilder()
    method.output(method.input([2]))
    loaded = Runtime.get().load_program(build_program(method)).load_method("forward")
    with pytest.raises(NotSupportedError, match=r"use execute\(\) with flat inputs"):
        loaded(torch.ones(2))


@pytest.mark.parametrize(
    "broken",
    [
        "[",
        "[2, {}]",
        "3",
        text(node("dict", [], json.dumps(["a"]))),
        json.dumps([1, {}]),
        # What fuzz_nesting.py found.
        text(LEAF),
        text(node("dict", [LEAF, LEAF], json.dumps([[[1]], 2]))),
        text(node("dict", [LEAF, LEAF], json.dumps(["a", "a"]))),
        text(node("module.Class", [LEAF, LEAF], json.dumps(["a", "a"]))),
    ],
)
def test_a_nesting_that_cannot_be_read(broken: str) -> None:
    with pytest.raises(NotSupportedError, match="cannot be read"):
        pytree.parse(broken, "inputs")


def test_none_in_a_nesting() -> None:
    tree = pytree.parse(text(node("tuple", [node("NoneType", []), LEAF])), "inputs")
    assert pytree.flatten(tree, (None, 5)) == [5]
    assert pytree.unflatten(tree, [5]) == (None, 5)
    assert tree.describe() == "(None, *)"
    with pytest.raises(InvalidArgumentError, match="found int, expected None"):
        pytree.flatten(tree, (1, 5))


def test_another_number_of_values_than_the_nesting_has() -> None:
    tree = pytree.parse(text(node("tuple", [LEAF, LEAF])), "outputs")
    for leaves in ([1], [1, 2, 3]):
        with pytest.raises(NotSupportedError):
            pytree.unflatten(tree, leaves)
