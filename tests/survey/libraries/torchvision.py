"""`torchvision`: classification, segmentation, video, optical flow, detection with what follows it,
and its operators."""

from typing import Any

import torch
from torch import nn

from tests.survey.libraries.recipe import Models, Recipe, calls, each, image


def _create(name: str, **options: Any) -> nn.Module:
    from torchvision import models

    return models.get_model(name, weights=None, **options).eval()


def _image(name: str) -> Recipe:
    size = 224 if name.startswith(("vit", "maxvit", "inception")) else 96
    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return Recipe(_create(name, num_classes=10, **options), (image(1, 3, size, size),))


def _segmentation(name: str) -> Recipe:
    return Recipe(_create(name, weights_backbone=None, num_classes=5), (image(1, 3, 96, 96),))


def _video(name: str) -> Recipe:
    frames, size = (16, 224) if name in ("mvit_v2_s", "s3d") else (16, 64)
    return Recipe(_create(name, num_classes=10), (image(1, 3, frames, size, size),))


def _flow(name: str) -> Recipe:
    return Recipe(
        _create(name),
        (image(1, 3, 128, 128), image(1, 3, 128, 128).flip(-1)),
        {"num_flow_updates": 2},
    )


class _Detector(nn.Module):
    """Images as one tensor; boxes of the first image."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = self.detector([images[0]])[0]
        return found


def _detector(name: str) -> Recipe:
    options = {} if name.startswith("ssd") else {"min_size": 128, "max_size": 128}
    module = _create(name, weights_backbone=None, num_classes=3, **options)
    return Recipe(_Detector(module), (image(1, 3, 128, 128),))


def _boxes(count: int = 20) -> torch.Tensor:
    corner = image(count, 2) * 40
    return torch.cat([corner, corner + 5 + image(2, count, 2)[1] * 20], 1)


def _ops() -> Models:
    def op(name: str, *args: Any) -> Any:
        def call(*inputs: Any) -> Any:
            from torchvision import ops

            return getattr(ops, name)(*inputs, *args)

        return call

    boxes, scores, labels = _boxes(), image(20), torch.arange(20) % 3
    rois = torch.cat([torch.zeros(20, 1), boxes], 1)
    features = image(1, 8, 64, 64)
    return {
        "nms": calls(op("nms", 0.5), boxes, scores),
        "batched_nms": calls(op("batched_nms", 0.5), boxes, scores, labels),
        "roi_align": calls(op("roi_align", 7, 1.0, 2), features, rois),
        "roi_pool": calls(op("roi_pool", 7), features, rois),
        "ps_roi_align": calls(op("ps_roi_align", 2), features, rois),
        "ps_roi_pool": calls(op("ps_roi_pool", 2), features, rois),
        "box_iou": calls(op("box_iou"), boxes, boxes),
        "deform_conv2d": calls(
            op("deform_conv2d"), features, image(1, 18, 62, 62) * 4 - 2, image(4, 8, 3, 3)
        ),
    }


MODELS: Models = {
    **each(
        """
        alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3
        maxvit_t mnasnet0_5 mobilenet_v2 mobilenet_v3_small regnet_x_400mf regnet_y_400mf resnet18
        resnet50 resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_0 swin_t swin_v2_t vgg11_bn vit_b_32
        """,
        _image,
    ),
    **each("deeplabv3_mobilenet_v3_large fcn_resnet50 lraspp_mobilenet_v3_large", _segmentation),
    **each("mc3_18 mvit_v2_s r2plus1d_18 r3d_18 s3d swin3d_t", _video),
    **each("raft_small raft_large", _flow),
    **each(
        """
        fasterrcnn_mobilenet_v3_large_320_fpn fasterrcnn_resnet50_fpn fcos_resnet50_fpn
        keypointrcnn_resnet50_fpn maskrcnn_resnet50_fpn retinanet_resnet50_fpn ssd300_vgg16
        ssdlite320_mobilenet_v3_large
        """,
        _detector,
    ),
    **_ops(),
}
