"""The runtime's operator for non-maximum suppression.

    torchvision.nms(boxes, scores, threshold)    ==>    nms_mask(boxes by score, threshold)

The decomposition of nms calls it (`exir/operators/library_operators.py`).
"""

import torch

from pteron.backends.aoti.ops.custom_operator import define


def _nms_mask(boxes: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Whether a box stays: no box before it that stays overlaps it by more than the threshold."""
    low, high = boxes[:, None, :2].maximum(boxes[:, :2]), boxes[:, None, 2:].minimum(boxes[:, 2:])
    area, both = (boxes[:, 2:] - boxes[:, :2]).prod(1), (high - low).clamp(min=0).prod(2)
    overlaps = both / (area[:, None] + area - both) > iou_threshold
    kept = torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
    for i in range(len(boxes)):
        kept[i] = not (overlaps[:i, i] & kept[:i]).any()
    return kept


define(
    "nms_mask(Tensor boxes, float iou_threshold) -> Tensor",
    lambda boxes, iou_threshold: boxes.new_empty(boxes.shape[:1], dtype=torch.bool),
    _nms_mask,
)
