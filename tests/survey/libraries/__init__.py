"""Models of other libraries than `transformers`: a module for each, with `MODELS`, recipes by name.

    found = recipe("timm:resnet10t")
    found.module(*found.args, **found.kwargs)

A library is imported when one of its recipes is called.
"""

import importlib
import importlib.util

import torch
from torch import nn

from tests.survey.libraries.recipe import Absent, Models, Recipe

LIBRARIES = tuple(
    """
    timm torchvision torchaudio torch_geometric diffusers segmentation_models_pytorch monai kornia
    ultralytics vit_pytorch
    """.split()
)


def names() -> list[str]:
    """All models, as "library:model"."""
    return [f"{library}:{model}" for library in LIBRARIES for model in _models(library)]


def recipe(name: str) -> Recipe:
    """The recipe of "library:model".

    Raises:
        Absent: there is no such model, or the library is not installed.
    """
    library, _, model = name.partition(":")
    make = _models(library).get(model) if library in LIBRARIES else None
    if not make or not importlib.util.find_spec(library):
        raise Absent(name)
    torch.manual_seed(1234)
    found = make()
    _vary(found.module)
    return found


def _vary(module: nn.Module) -> None:
    """Random values where all are equal: a last layer of zeros would make every output right."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and (parameter == parameter.flatten()[:1]).all():
                parameter.add_(0.05 * torch.randn_like(parameter))
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(0.05 * torch.randn_like(buffer))
            elif name.endswith("running_var"):
                buffer.mul_(0.75 + 0.5 * torch.rand_like(buffer))


def _models(library: str) -> Models:
    found: Models = importlib.import_module(f"tests.survey.libraries.{library}").MODELS
    return found
