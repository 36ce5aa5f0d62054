"""Forms in which models take inputs and return outputs, and dynamic shapes of these."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import pteron
from pteron.exporter import export_methods

BATCH = torch.export.Dim("batch", max=8)
X, Y = torch.ones(2, 3), torch.ones(5, 3)


@dataclasses.dataclass
class Inner:
    scale: torch.Tensor | None = None


@dataclasses.dataclass
class Fields:
    x: torch.Tensor
    mask: torch.Tensor | None = None
    inner: Inner = dataclasses.field(default_factory=Inner)


class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


class OfFields(nn.Module):
    def forward(self, given: Fields) -> Fields:
        scale = given.inner.scale
        return Fields(given.x + 1, None, Inner(given.x * (1 if scale is None else scale)))


class Adds(nn.Module):
    def forward(self, x: torch.Tensor, *others: torch.Tensor, **named: Any) -> torch.Tensor:
        return sum(others, x) + sum(named.values())


class Composed(nn.Module):
    """As the transforms of torchvision, which take any inputs."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return inputs[0] * 2


class Nested(nn.Module):
    def forward(self, pair: Pair, batch: dict[str, Any], scale: float = 2.0) -> Pair:
        return Pair(pair.a + batch["x"], pair.b * scale)


@pytest.mark.parametrize(
    ("model", "make", "shapes"),
    [
        (OfFields(), lambda x: ((Fields(x),), {}), ({"x": {0: BATCH}},)),
        (
            OfFields(),
            lambda x: ((Fields(x, None, Inner(x)),), {}),
            {"given": {"x": {0: BATCH}, "mask": None, "inner": {"scale": {0: BATCH}}}},
        ),
        (Adds(), lambda x: ((x, x, x), {}), ({0: BATCH},) * 3),
        (Adds(), lambda x: ((x, x), {}), ({0: BATCH},) * 2),
        (Composed(), lambda x: ((x,), {}), ({0: BATCH},)),
        (Adds(), lambda x: ((x, x, x), {}), ({0: BATCH}, ({0: BATCH},) * 2)),
        (Adds(), lambda x: ((x,), {"y": x, "z": x}), dict.fromkeys("xyz", {0: BATCH})),
        (Adds(), lambda x: ((x,), {"y": x, "z": x[:1]}), dict.fromkeys("xy", {0: BATCH})),
        (
            Nested(),
            lambda x: ((Pair(x, x[:1]), {"x": x, "name": "one"}), {}),
            {"pair": Pair({0: BATCH}, None), "batch": {"x": {0: BATCH}}},
        ),
    ],
)
def test_dynamic_shapes_as_inputs_are_nested(model: Any, make: Any, shapes: Any) -> None:
    args, kwargs = make(X)
    program = export_methods(model.eval(), args, kwargs, shapes)[0]["forward"]
    args, kwargs = make(Y)
    found, expected = program.module()(*args, **kwargs), model(*args, **kwargs)
    leaves = torch.utils._pytree.tree_leaves
    torch.testing.assert_close(leaves(found), leaves(expected))


@pytest.mark.parametrize(
    ("model", "args", "kwargs", "shapes", "expected"),
    [
        (OfFields(), (Fields(X),), {}, ({"y": {0: BATCH}},), "no input 'y'.* Known: inner, x"),
        (Adds(), (X,), {"y": X}, {"x": {0: BATCH}, "yy": {}}, "no input 'yy'; did you mean 'y'"),
        (Nested(), (Pair(X, X), {"x": X}), {}, ({}, {"z": {}}, None), "dynamic_shapes"),
    ],
)
def test_names_that_no_input_has(
    model: Any, args: Any, kwargs: Any, shapes: Any, expected: str
) -> None:
    with pytest.raises(pteron.ExportError, match=expected):
        export_methods(model.eval(), args, kwargs, shapes)


def test_a_dataclass_that_is_not_registered_from_a_file(tmp_path: Path) -> None:
    pteron.export(OfFields().eval(), (Fields(X),), tmp_path / "model.pte")
    method = pteron.Runtime.get().load_program(tmp_path / "model.pte").load_method("forward")
    found = method(Fields(X * 3))
    torch.testing.assert_close(torch.as_tensor(found.x), X * 3 + 1)
    torch.testing.assert_close(torch.as_tensor(found.inner.scale), X * 3)


class Neuron(nn.Module):
    """As snntorch's, whose state is an attribute that was a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.state = torch.zeros(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = torch.zeros_like(x) + x.sum()
        return x > self.state


def test_an_attribute_that_is_traced_is_put_back() -> None:
    model = Neuron().eval()
    program = export_methods(model, (X,), None, ({0: BATCH},))[0]["forward"]
    assert model.state.shape == (0,)
    torch.testing.assert_close(program.module()(Y), model(Y))
