"""Recurrent layers lowered for CUDA, beside eager: unrolled, and as a loop. Needs a GPU."""

import pathlib
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils._pytree import tree_leaves

import pteron
from pteron.backends.cuda.tests.programs import ON_DEVICE, check

_ON_DEVICE: dict[str, Any] = {
    "backend": "cuda",
    "config": pteron.ExecutorchBackendConfig(**ON_DEVICE),
    "options": {"cuda.save_data_externally": False},
}

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def _layer(kind: str, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    layer: nn.Module = getattr(nn, kind)(12, 20, num_layers=2, **options)
    return layer.eval().cuda()


def _sequence(*shape: int) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(shape[0])
    return torch.randn(*shape, 12, device="cuda", generator=generator)


def _eager(layer: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad(), torch.backends.cudnn.flags(allow_tf32=False):
        return [value.cpu() for value in tree_leaves(layer(x))]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("steps", [4, 40])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_results_are_eagers(
    kind: str, steps: int, bidirectional: bool, tmp_path: pathlib.Path
) -> None:
    layer = _layer(kind, bidirectional=bidirectional, batch_first=True)
    x = _sequence(3, steps)
    pteron.export(layer, (x,), tmp_path / "model.pte", **_ON_DEVICE)
    method = pteron.Runtime.get().load_program(tmp_path / "model.pte").load_method("forward")
    for input in (x, x.flip(1)):
        found = tree_leaves(method(input))
        check([torch.from_dlpack(value) for value in found], _eager(layer, input), 1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_the_number_of_steps_is_dynamic(kind: str, tmp_path: pathlib.Path) -> None:
    layer = _layer(kind)
    shapes = ({0: Dim("steps", min=2, max=100)},)
    path = tmp_path / "model.pte"
    pteron.export(layer, (_sequence(40, 3),), path, dynamic_shapes=shapes, **_ON_DEVICE)
    method = pteron.Runtime.get().load_program(tmp_path / "model.pte").load_method("forward")
    for count in (40, 2, 33, 100):
        x = _sequence(count, 3)
        found = tree_leaves(method(x))
        check([torch.from_dlpack(value) for value in found], _eager(layer, x), 1e-5)
