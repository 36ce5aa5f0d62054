"""`monai`: networks for volumes and slices of medical images."""

from collections.abc import Callable
from typing import Any

import torch

from tests.survey.libraries.recipe import Calls, Models, Recipe, image, noise


def _model(
    name: str, args: tuple[Any, ...], *positional: Any, **options: Any
) -> Callable[[], Recipe]:
    def make() -> Recipe:
        from monai.networks import nets

        return Recipe(getattr(nets, name)(*positional, **options).eval(), args)

    return make


def _autoencoder() -> Recipe:
    from monai.networks import nets

    module = nets.AutoencoderKL(
        2,
        1,
        1,
        (1, 1),
        channels=(8, 16),
        attention_levels=(False, True),
        norm_num_groups=8,
        latent_channels=3,
    )
    # forward() adds random numbers.
    return Recipe(Calls(lambda part, images: part.reconstruct(images), module).eval(), _SLICE)


_VOLUME, _SLICE = (image(1, 1, 32, 32, 32),), (image(1, 1, 64, 64),)
_UNET = {"in_channels": 1, "out_channels": 2, "channels": (8, 16, 32), "strides": (2, 2)}

MODELS: Models = {
    "UNet": _model("UNet", _VOLUME, spatial_dims=3, num_res_units=1, **_UNET),
    "AttentionUnet": _model("AttentionUnet", _VOLUME, spatial_dims=3, **_UNET),
    "BasicUNet": _model(
        "BasicUNet", _VOLUME, spatial_dims=3, out_channels=2, features=(8, 8, 16, 16, 32, 8)
    ),
    "BasicUNetPlusPlus": _model(
        "BasicUNetPlusPlus", _SLICE, spatial_dims=2, features=(8, 8, 16, 16, 32, 8)
    ),
    "DynUNet": _model(
        "DynUNet", _VOLUME, 3, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=[8, 16, 32]
    ),
    "SegResNet": _model("SegResNet", _VOLUME, init_filters=8, out_channels=2),
    "VNet": _model("VNet", _VOLUME, out_channels=2),
    "HighResNet": _model("HighResNet", _SLICE, spatial_dims=2, out_channels=2),
    "UNETR": _model(
        "UNETR",
        _VOLUME,
        1,
        2,
        (32, 32, 32),
        feature_size=8,
        hidden_size=48,
        mlp_dim=96,
        num_heads=4,
    ),
    "SwinUNETR": _model("SwinUNETR", (image(1, 1, 64, 64, 64),), 1, 2, feature_size=12),
    "DenseNet121": _model("DenseNet121", _SLICE, spatial_dims=2, in_channels=1, out_channels=2),
    "SENet154": _model(
        "SENet", _SLICE, 2, 1, "se_bottleneck", [1, 1, 1, 1], groups=8, reduction=16, num_classes=2
    ),
    "EfficientNetBN": _model(
        "EfficientNetBN", _SLICE, "efficientnet-b0", spatial_dims=2, in_channels=1, pretrained=False
    ),
    "ViT": _model(
        "ViT",
        _VOLUME,
        1,
        (32, 32, 32),
        (16, 16, 16),
        hidden_size=48,
        mlp_dim=96,
        num_layers=2,
        num_heads=4,
        classification=True,
    ),
    "AutoencoderKL": _autoencoder,
    "DiffusionModelUNet": _model(
        "DiffusionModelUNet",
        (image(1, 1, 32, 32), torch.tensor([5])),
        2,
        1,
        1,
        (1, 1),
        channels=(8, 16),
        attention_levels=(False, True),
        norm_num_groups=8,
        num_head_channels=8,
    ),
    "VoxelMorphUNet": _model(
        "VoxelMorphUNet", (image(1, 2, 32, 32, 32),), 3, 2, 32, (8, 8, 8, 8), (8, 8)
    ),
    "GlobalNet": _model(
        "GlobalNet",
        (image(1, 2, 32, 32, 32),),
        [32, 32, 32],
        spatial_dims=3,
        in_channels=2,
        num_channel_initial=4,
        depth=2,
    ),
    "HoVerNet": _model("HoVerNet", (image(1, 3, 256, 256),), mode="fast", out_classes=3),
    "MedNeXtS": _model("MedNeXtS", _VOLUME, spatial_dims=3, in_channels=1, out_channels=2),
    "FullyConnectedNet": _model(
        "FullyConnectedNet", (noise(4, 10),), 10, 3, [16, 16], dropout=None
    ),
}
