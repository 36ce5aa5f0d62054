"""Decompositions of other libraries' operators into torch's."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload


def library_decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions of the operators in `_BY_NAME` that are registered in this process."""
    found = {}
    for name, function in _BY_NAME.items():
        namespace, _, operator = name.partition("::")
        packet = getattr(getattr(torch.ops, namespace), operator, None)
        if packet is not None:
            found[packet.default] = function
    return found


@contextlib.contextmanager
def any_number_of_kept_boxes() -> Iterator[None]:
    """Inside, torchvision.nms is exported for any number of boxes that stay.

    torchvision itself says that there are two or more, which a program would check when it runs.
    """
    if not hasattr(torch.ops.torchvision, "nms"):
        yield
        return
    with torch.library._scoped_library("torchvision", "IMPL") as library:
        # As torch.library.register_fake does, but that refuses another module than the one which
        # torchvision's C++ names, with torchvision 0.28 and earlier.
        entry = torch._library.simple_registry.singleton.find("torchvision::nms")
        handle = entry.fake_impl.register(
            lambda dets, scores, iou_threshold: dets.new_empty(
                torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64
            ),
            __name__,
            lib=library,
            allow_override=True,
        )
        library._registration_handles.append(handle)
        yield


def _grouped_mm(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Grouped matmul: multiplies each row by its group's matrix; group g's rows end at `ends[g]`.

    A reduction that gathers the group's matrix: as many multiplications as a grouped GEMM, also for
    data-dependent group sizes.
    """
    index = torch.arange(rows.shape[0], device=rows.device)
    group = (index[:, None] >= ends[None, :]).sum(1)
    last = weights.shape[0] - 1
    product = (rows[:, :, None] * weights[group.clamp(max=last)]).sum(1)
    return torch.where((group <= last)[:, None], product, torch.zeros_like(product))


def _nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Non-maximum suppression: indices of the boxes that stay, of high scores first.

    nms_mask is a custom operator of backends/aoti/ops/detection.
    """
    if not hasattr(torch.ops.pteron, "nms_mask"):
        return NotImplemented
    order = scores.sort(stable=True, descending=True).indices
    boxes = boxes.to(torch.promote_types(boxes.dtype, torch.float32))
    kept = torch.ops.pteron.nms_mask(boxes[order], iou_threshold)
    return order[kept.nonzero()[:, 0]]


def _in_float32(name: str) -> Callable[..., Any]:
    """Of float16 and bfloat16, for which the runtime has no kernel."""

    def decompose(first: torch.Tensor, second: torch.Tensor, *options: Any) -> Any:
        if first.dtype not in (torch.float16, torch.bfloat16):
            return NotImplemented
        found = getattr(torch.ops.torchvision, name)(first.float(), second.float(), *options)
        if isinstance(found, torch.Tensor):
            return found.to(first.dtype)
        return found[0].to(first.dtype), found[1]

    return decompose


def _deform_conv2d(
    image: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    bias: torch.Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> torch.Tensor:
    """A matmul with the elements that the taps are interpolated from, 0 beside the image."""
    dtype = image.dtype
    if dtype in (torch.float16, torch.bfloat16):
        image, weight, offset, mask, bias = (
            tensor.float() for tensor in (image, weight, offset, mask, bias)
        )
    batch, channels, height, width = image.shape
    rows, cols = weight.shape[2:]
    out_h, out_w = offset.shape[2:]
    offset = offset.view(batch, offset_groups, rows, cols, 2, out_h, out_w)

    def places(out: int, stride: int, pad: int, taps: int, dilation: int, dim: int) -> torch.Tensor:
        """Along dimension `dim`, 0 or 1: [batch, offset_groups, rows, cols, out_h, out_w]."""

        def along(length: int, step: int, axis: int) -> torch.Tensor:
            shape = [1] * 4
            shape[axis] = length
            return (torch.arange(length, device=image.device) * step).view(shape)

        regular = along(taps, dilation, dim) + along(out, stride, dim + 2) - pad
        return regular + offset[:, :, :, :, dim]

    y = places(out_h, stride_h, pad_h, rows, dilation_h, 0)
    x = places(out_w, stride_w, pad_w, cols, dilation_w, 1)
    top, left = y.floor(), x.floor()
    pixels = image.reshape(batch, offset_groups, channels // offset_groups, height * width)
    taps: Any = 0
    for down in (0, 1):
        for right in (0, 1):
            at_y, at_x = top + down, left + right
            share = (1 - (y - at_y).abs()) * (1 - (x - at_x).abs())
            inside = (at_y >= 0) & (at_y < height) & (at_x >= 0) & (at_x < width)
            index = torch.where(inside, at_y, 0).to(torch.int64) * width
            index = (index + torch.where(inside, at_x, 0).to(torch.int64)).flatten(2)
            index = index[:, :, None].expand(-1, -1, channels // offset_groups, -1)
            share = torch.where(inside | (y + x).isnan(), share, 0).flatten(2)[:, :, None]
            taps = taps + share * pixels.gather(3, index)
    if use_mask:
        taps = taps * mask.view(batch, offset_groups, 1, rows * cols * out_h * out_w)
    taps = taps.view(batch, groups, channels // groups * rows * cols, out_h * out_w)
    result = weight.reshape(groups, weight.shape[0] // groups, -1) @ taps
    result = result.view(batch, weight.shape[0], out_h, out_w) + bias.view(1, -1, 1, 1)
    return result.to(dtype)


_BY_NAME: dict[str, Callable[..., Any]] = {
    # MoE layers of transformers; its own function reads the group sizes with item().
    "transformers::grouped_mm_fallback": _grouped_mm,
    "torchvision::nms": _nms,
    "torchvision::deform_conv2d": _deform_conv2d,
    **{
        f"torchvision::{name}": _in_float32(name)
        for name in ("roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool")
    },
}
