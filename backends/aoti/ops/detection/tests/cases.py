"""Operators of torchvision for detectors."""

from collections.abc import Iterator

import torch

import pteron.backends.aoti.ops.tests.torchvision_operators  # noqa: F401
from pteron.backends.aoti.ops.tests.case import *

_DTYPES = (torch.float32, torch.float64)


def boxes(count: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Some are outside of an image of 9 x 11."""
    low = numbers(count, 2, dtype=dtype, seed=seed) * 1.5 + 3
    return torch.cat([low, low + numbers(count, 2, dtype=dtype, seed=seed + 1).abs() * 2.5], 1)


def regions(count: int, dtype: torch.dtype = torch.float32, images: int = 2) -> torch.Tensor:
    image = torch.arange(count, dtype=dtype)[:, None] % images
    return torch.cat([image, boxes(count, dtype)], 1)


def cases() -> Iterator[Json]:
    for dtype in _DTYPES:
        name = short(dtype)
        for layout, b in layouts(boxes(40, dtype)):
            for threshold in (0.0, 0.3, 1.0):
                yield case(f"{name}/{layout}/{threshold}", "nms_mask", b, threshold)
        image, rois = numbers(2, 6, 9, 11, dtype=dtype), regions(5, dtype)
        wide: Json = {"wide": True, "tolerance": 2e-6 if dtype == torch.float32 else 1e-13}
        for layout, x in layouts(image):
            yield case(f"{name}/{layout}", "roi_align", x, rois, 0.5, 3, 2, 2, True, **wide)
            yield case(f"{name}/{layout}", "roi_pool", x, rois, 0.5, 3, 2)
            yield case(f"{name}/{layout}", "ps_roi_align", x, rois, 0.5, 3, 2, 2, **wide)
            yield case(f"{name}/{layout}", "ps_roi_pool", x, rois, 0.5, 3, 2, **wide)
        last = image.to(memory_format=torch.channels_last)
        for layout, r in layouts(rois):
            for scale in (1.0, 0.7):
                for ratio in (0, 3):
                    what = f"{name}/rois_{layout}/{scale}/{ratio}"
                    for aligned in (False, True):
                        arguments = (last, r, scale, 2, 3, ratio, aligned)
                        yield case(f"{what}/{aligned}", "roi_align", *arguments, **wide)
                    yield case(what, "ps_roi_align", last, r, scale, 2, 3, ratio, **wide)
                yield case(f"{name}/rois_{layout}/{scale}", "roi_pool", last, r, scale, 2, 3)
                averaged = f"{name}/rois_{layout}/{scale}", "ps_roi_pool"
                yield case(*averaged, last, r, scale, 2, 3, **wide)
    nan = boxes(12)
    nan[3], nan[7, 2] = float("nan"), float("inf")
    yield case("nan", "nms_mask", nan, 0.3)
    yield case("none", "nms_mask", numbers(0, 4), 0.3)
    yield case("equal", "nms_mask", torch.tensor([[0.0, 0, 2, 2]]).repeat(5, 1), 0.5)
    yield case("no_area", "nms_mask", torch.ones(3, 4), 0.5)
    # So many that several blocks of threads take turns.
    whole = torch.arange(2600)[:, None] * torch.tensor([7.0, 3.0]) % 1024
    yield case("many", "nms_mask", torch.cat([whole, whole + 96], 1), 0.25)
    x = numbers(1, 6, 9, 11)
    for shim, rest in (("roi_align", (2, True)), ("ps_roi_align", (2,)), ("roi_pool", ())):
        yield case("no_regions", shim, x, numbers(0, 5), 1.0, 2, 3, *rest)
        wrong = regions(2, images=2)
        parts = ["found image 1 of region 1, expected one of 1 images"]
        yield error("image", shim, x, wrong, 1.0, 2, 3, *rest, parts=parts, host=True)
        yield error("rois", shim, x, boxes(2), 1.0, 2, 3, *rest, parts=["rois float32[2, 4]"])
        yield error("rank", shim, x[0], wrong, 1.0, 2, 3, *rest, parts=["input float32[6, 9, 11]"])
        parts = ["expected float32 or float64"]
        yield error("dtype", shim, x.half(), wrong, 1.0, 2, 3, *rest, parts=parts)
        yield error("bins", shim, x, wrong, 1.0, 2, 0, *rest, parts=["2 x 0 bins"])
        many = 2**62
        yield error("many_bins", shim, x, wrong, 1.0, 4, many, *rest, parts=[f"4 x {many} bins"])
        yield error("none", shim, x[..., :0], regions(1), 1.0, 2, 3, *rest, parts=["elements"])
    endless = regions(1)
    endless[0, 3:] = float("inf")
    arguments = (x, endless, 1.0, 2, 3, 0, True)
    yield case("endless", "roi_align", *arguments, reference=lambda *_: torch.zeros(1, 6, 2, 3))
    parts = ["found sampling_ratio 257, expected at most 256"]
    yield error("samples", "roi_align", x, regions(1), 1.0, 2, 3, 257, True, parts=parts)
    parts = ["expected a multiple of 4 channels"]
    yield error("channels", "ps_roi_pool", x, regions(1), 1.0, 2, 2, parts=parts)
    yield error("shape", "nms_mask", numbers(3, 5), 0.5, parts=["float32[3, 5]"])
    yield error("dtype", "nms_mask", boxes(2).long(), 0.5, parts=["expected float32 or float64"])
