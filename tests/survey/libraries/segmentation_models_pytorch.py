"""`segmentation_models_pytorch`: each of its decoders, with several encoders."""

from tests.survey.libraries.recipe import Models, Recipe, each, image

_ENCODERS = {
    "Unet": "resnet18",
    "UnetPlusPlus": "timm-efficientnet-b0",
    "DeepLabV3Plus": "mobilenet_v2",
    "FPN": "efficientnet-b0",
    "DPT": "tu-vit_tiny_patch16_224",
    "Segformer": "mit_b0",
}


def _model(name: str) -> Recipe:
    import segmentation_models_pytorch as library

    options = {"dynamic_img_size": True} if name == "DPT" else {}
    module = getattr(library, name)(
        _ENCODERS.get(name, "resnet18"), encoder_weights=None, classes=3, **options
    )
    size = {"DPT": 224, "PAN": 128}.get(name, 64)
    return Recipe(module.eval(), (image(1, 3, size, size),))


MODELS: Models = each(
    "DPT DeepLabV3 DeepLabV3Plus FPN Linknet MAnet PAN PSPNet Segformer UPerNet Unet UnetPlusPlus",
    _model,
)
