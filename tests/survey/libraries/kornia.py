"""`kornia`: geometry, filters, colours and local features."""

from collections.abc import Callable
from typing import Any

import torch

from tests.survey.libraries.recipe import Calls, Models, Recipe, calls, image, noise

_PICTURE = image(1, 3, 48, 64)
_GREY = image(1, 1, 64, 64)
_POINTS = image(1, 8, 2) * 40
_HOMOGRAPHY = torch.tensor([[[1.1, 0.05, 2.0], [-0.04, 0.95, 1.0], [1e-4, 2e-4, 1.0]]])


def _function(path: str, *args: Any, **options: Any) -> Callable[[], Recipe]:
    def call(*inputs: Any) -> Any:
        return _named(path)(*inputs, **options)

    return calls(call, *args)


def _module(path: str, *args: Any, **options: Any) -> Callable[[], Recipe]:
    return lambda: Recipe(_named(path)(**options).eval(), args)


def _named(path: str) -> Any:
    import kornia

    found: Any = kornia
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _loftr() -> Recipe:
    pair = {"image0": _GREY, "image1": _GREY.roll(3, -1)}
    return Recipe(_named("feature.LoFTR")(pretrained=None).eval(), (pair,))


def _disk() -> Recipe:
    disk = _named("feature.DISK")().eval()
    return Recipe(
        Calls(lambda part, images: part.heatmap_and_dense_descriptors(images), disk),
        (image(1, 3, 64, 64),),
    )


MODELS: Models = {
    "rotate": _function("geometry.transform.rotate", _PICTURE, torch.tensor([30.0])),
    "resize": _function("geometry.transform.resize", _PICTURE, size=(24, 40), antialias=True),
    "warp_perspective": _function(
        "geometry.transform.warp_perspective", _PICTURE, _HOMOGRAPHY, dsize=(48, 64)
    ),
    "warp_affine": _function(
        "geometry.transform.warp_affine", _PICTURE, _HOMOGRAPHY[:, :2], dsize=(48, 64)
    ),
    "pyrdown": _function("geometry.transform.pyrdown", _PICTURE),
    "find_homography_dlt": _function(
        "geometry.homography.find_homography_dlt", _POINTS, _POINTS * 1.5 + noise(1, 8, 2)
    ),
    "undistort_points": _function(
        "geometry.calibration.undistort_points",
        _POINTS,
        torch.tensor([[[50.0, 0, 20], [0, 50, 20], [0, 0, 1]]]),
        image(1, 4) * 0.1,
    ),
    "solve_pnp_dlt": _function(
        "geometry.solve_pnp_dlt",
        noise(1, 8, 3) + torch.tensor([0.0, 0, 5]),
        _POINTS,
        torch.tensor([[[50.0, 0, 20], [0, 50, 20], [0, 0, 1]]]),
    ),
    "axis_angle_to_rotation_matrix": _function(
        "geometry.conversions.axis_angle_to_rotation_matrix", noise(4, 3)
    ),
    "rotation_matrix_to_quaternion": _function(
        "geometry.conversions.rotation_matrix_to_quaternion", torch.eye(3).repeat(4, 1, 1)
    ),
    "canny": _function("filters.canny", _GREY),
    "sobel": _function("filters.sobel", _PICTURE),
    "gaussian_blur2d": _function(
        "filters.gaussian_blur2d", _PICTURE, kernel_size=(5, 5), sigma=(1.5, 1.5)
    ),
    "median_blur": _function("filters.median_blur", _PICTURE, kernel_size=(3, 3)),
    "bilateral_blur": _function(
        "filters.bilateral_blur",
        _PICTURE,
        kernel_size=(5, 5),
        sigma_color=0.1,
        sigma_space=(1.5, 1.5),
    ),
    "unsharp_mask": _function(
        "filters.unsharp_mask", _PICTURE, kernel_size=(5, 5), sigma=(1.5, 1.5)
    ),
    "rgb_to_lab": _function("color.rgb_to_lab", _PICTURE),
    "rgb_to_hsv": _function("color.rgb_to_hsv", _PICTURE),
    "equalize": _function("enhance.equalize", _PICTURE),
    "equalize_clahe": _function("enhance.equalize_clahe", _GREY),
    "dilation": _function("morphology.dilation", _PICTURE, torch.ones(3, 3)),
    "connected_components": _function(
        "contrib.connected_components", (_GREY > 0.6).float(), num_iterations=8
    ),
    "harris_response": _function("feature.harris_response", _GREY),
    "HardNet": _module("feature.HardNet", image(4, 1, 32, 32), pretrained=False),
    "SOSNet": _module("feature.SOSNet", image(4, 1, 32, 32), pretrained=False),
    "TFeat": _module("feature.TFeat", image(4, 1, 32, 32), pretrained=False),
    "SIFTDescriptor": _module("feature.SIFTDescriptor", image(4, 1, 41, 41), patch_size=41),
    "DISK": _disk,
    "LoFTR": _loftr,
    "ssim": _function("metrics.ssim", _PICTURE, _PICTURE.flip(-1), window_size=5),
}
