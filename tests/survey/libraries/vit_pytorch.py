"""`vit_pytorch`: variants of vision transformers, tiny, for any batch."""

import importlib
from typing import Any

import torch

from tests.survey.libraries.recipe import Models, Recipe, each, image

_VIT = {
    "image_size": 32,
    "patch_size": 8,
    "num_classes": 5,
    "dim": 16,
    "depth": 2,
    "heads": 2,
    "mlp_dim": 32,
}
_LEVELS: dict[str, Any] = {"dim": 16, "heads": 2, "num_classes": 5}

#: Options, by module and class.
_OPTIONS: dict[str, dict[str, Any]] = {
    "vit.ViT": _VIT,
    "simple_vit.SimpleViT": _VIT,
    "deepvit.DeepViT": _VIT,
    "cait.CaiT": {**_VIT, "cls_depth": 1},
    "xcit.XCiT": {**_VIT, "cls_depth": 1, "local_patch_kernel_size": 3},
    "simple_vit_with_qk_norm.SimpleViT": _VIT,
    "simple_vit_with_register_tokens.SimpleViT": _VIT,
    "vit_with_patch_dropout.ViT": {**_VIT, "patch_dropout": 0.25},
    "pit.PiT": {**_VIT, "depth": (1, 1)},
    "nest.NesT": {
        **_LEVELS,
        "image_size": 32,
        "patch_size": 4,
        "num_hierarchies": 2,
        "block_repeats": (1, 1),
    },
    "t2t.T2TViT": {
        **_LEVELS,
        "image_size": 32,
        "depth": 2,
        "mlp_dim": 32,
        "t2t_layers": ((3, 2), (3, 2)),
    },
}


def _model(name: str) -> Recipe:
    file, _, kind = name.partition(".")
    module = importlib.import_module(f"vit_pytorch.{file}")
    batch = torch.export.Dim("batch", max=8)
    made = getattr(module, kind)(**_OPTIONS[name])
    return Recipe(made.eval(), (image(2, 3, 32, 32),), {}, ({0: batch},), (image(3, 3, 32, 32),))


MODELS: Models = each(" ".join(_OPTIONS), _model)
