"""`torch_harmonics`: transforms and networks on the sphere, for any batch."""

import importlib
from typing import Any

import torch

from tests.survey.libraries.recipe import Calls, Models, Recipe, each, noise

_SIZE = (16, 32)
_NETWORKS = "torch_harmonics.examples.models."


def _made(path: str, *args: Any, **options: Any) -> torch.nn.Module:
    module, _, name = path.rpartition(".")
    made: torch.nn.Module = getattr(importlib.import_module(module), name)(*args, **options)
    return made.eval()


def _of_any_batch(module: torch.nn.Module, channels: int = 3, nested: bool = False) -> Recipe:
    shapes: Any = ({0: torch.export.Dim("batch", min=1, max=8)},)
    x, other = (noise(batch, channels, *_SIZE) for batch in (2, 5))
    return Recipe(module, (x,), dynamic_shapes=(shapes,) if nested else shapes, other=(other,))


def _back() -> Recipe:
    parts = (_made(f"torch_harmonics.{name}", *_SIZE) for name in ("RealSHT", "InverseRealSHT"))
    there_and_back = Calls(lambda there, back, x: back(there(x) * 2), *parts)
    return _of_any_batch(there_and_back.eval(), nested=True)


def _operator(name: str) -> Recipe:
    options = {"in_chans": 3, "out_chans": 2, "embed_dim": 16, "num_layers": 2, "scale_factor": 2}
    return _of_any_batch(_made(_NETWORKS + name, img_size=_SIZE, **options))


MODELS: Models = {
    "RealSHT": lambda: _of_any_batch(_made("torch_harmonics.RealSHT", *_SIZE)),
    "RealVectorSHT": lambda: _of_any_batch(_made("torch_harmonics.RealVectorSHT", *_SIZE), 2),
    "InverseRealSHT": _back,
    "ResampleS2": lambda: _of_any_batch(_made("torch_harmonics.ResampleS2", *_SIZE, 24, 48)),
    **each("sfno.SphericalFourierNeuralOperator", _operator),
}
