"""Conditions on sizes that hold for all of these, which torch cannot derive."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import pteron
from pteron.exporter import export_methods


class Calls(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def exported(function: Callable[[torch.Tensor], Any], *sizes: int, least: int) -> list[str]:
    model = Calls(function).eval()
    shapes = ({0: Dim("n", min=least, max=64)},)
    programs, notes = export_methods(model, (torch.arange(1.0, 17.0),), None, shapes)
    for n in sizes:
        x = torch.arange(float(n))
        torch.testing.assert_close(programs["forward"].module()(x), model(x))
    return notes


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[: x.shape[0] // 2],
        lambda x: x[: math.ceil(x.shape[0] * 0.5)] + 1,
        lambda x: x[x.shape[0] // 2 :] * x[-1],
        lambda x: x[x.shape[0] // 4 : 3 * x.shape[0] // 4],
        lambda x: x[: x.shape[0] - x.shape[0] % 4].view(-1, 4),
        lambda x: x.narrow(0, x.shape[0] // 2, 2),
        lambda x: x.unfold(0, 4, 2),
    ],
)
def test_parts_of_a_dynamic_size(function: Any) -> None:
    exported(function, 8, 9, 33, 64, least=8)


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool1d(F.pad(x[None], (0, x.shape[0] % 2)), 2).repeat_interleave(2, 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: padded(x)[:, : x.shape[0]],
        lambda x: padded(x)[:, -x.shape[0] :],
        lambda x: padded(x).narrow(1, 0, x.shape[0]),
    ],
)
def test_crops_of_what_was_padded(function: Any) -> None:
    assert exported(function, 4, 7, 16, 63, least=4) == []


def test_a_crop_of_what_was_padded_from_a_file(tmp_path: Path) -> None:
    model = Calls(lambda x: padded(x)[:, : x.shape[0]] * 2).eval()
    shapes, path = ({0: Dim("n", min=4, max=64)},), tmp_path / "model.pte"
    pteron.export(model, (torch.arange(16.0),), path, dynamic_shapes=shapes)
    method = pteron.Runtime.get().load_program(path).load_method("forward")
    for n in (4, 7, 33, 64):
        x = torch.arange(float(n))
        found: Any = method(x)
        torch.testing.assert_close(torch.as_tensor(found), model(x))


@pytest.mark.parametrize(
    "function", [lambda x: x[: x.shape[0] // 2] + 1, lambda x: x[x.shape[0] // 2 :] + x.sum()]
)
def test_parts_that_may_be_of_one_element(function: Any) -> None:
    (note,) = exported(function, 2, 3, 4, 9, 64, least=0)
    assert "was compared with the model" in note


@pytest.mark.parametrize("size", [1, 2, 9])
def test_parts_for_which_something_else_is_computed(size: int) -> None:
    def chooses(x: torch.Tensor) -> torch.Tensor:
        half = x[: x.shape[0] // 2]
        return half * 3 if half.shape[0] == size else half

    with pytest.raises(pteron.ExportError, match="Constraints violated"):
        exported(chooses, least=0)
