"""int8 and int4 weight-only GEMM: the operator, and the layout of its packed weight.

    quantized_mm(x, pack(values, scale, zero_point), ...)  ==  x @ (values * scale + zero_point)

The zero point is floating-point and already scaled, as that of `_weight_int4pack_mm`. A pass
inserts calls of the operator (`passes.quantized_gemm`), code generation reads the packed weight
(`inductor.packed_gemms`). It is panels of 32 columns, one after the other; a panel is groups of
rows that share a scale; a group is

* the values, row-major: 32 bytes a row, or 16 bytes of int4 + 8, of which the low nibbles are the
  first 16 columns and the high ones the others;
* 32 scales, float32;
* 32 zero points, float32, if there are any.
"""

import dataclasses
from typing import Any

import torch
import torch.nn.functional as F

from pteron.backends.aoti.ops.custom_operator import define

#: Columns of a panel.
PANEL = 32


@dataclasses.dataclass(frozen=True)
class Packing:
    """The format of a packed weight.

    Attributes:
        columns: of the weight; the last panel is padded with zeros.
        bits: of a value, 8 or 4.
        group_size: rows that share a scale; 0: int8 values without scales.
        has_zero_point: whether there are zero points.
    """

    columns: int
    bits: int = 8
    group_size: int = 0
    has_zero_point: bool = False

    @property
    def value_bytes(self) -> int:
        """Bytes of a row's values, in one panel."""
        return PANEL * self.bits // 8

    @property
    def row_bytes(self) -> int:
        """Bytes of a row and its share of the scales and zero points, in one panel."""
        parameters = 4 * PANEL * (1 + self.has_zero_point)
        return self.value_bytes + (parameters // self.group_size if self.group_size else 0)


def pack(
    values: torch.Tensor,
    packing: Packing,
    scale: torch.Tensor | None = None,
    zero_point: torch.Tensor | None = None,
) -> torch.Tensor:
    """Packs `values`, [rows, columns], int8, and `scale` and `zero_point`, [groups, columns], into
    [panels, rows, row_bytes], uint8."""
    rows, columns = values.shape
    panels = -(-columns // PANEL)

    def by_panel(matrix: torch.Tensor) -> torch.Tensor:
        padded = F.pad(matrix, (0, panels * PANEL - columns))
        return padded.reshape(-1, panels, PANEL).transpose(0, 1).contiguous()

    stored = by_panel(values)
    if packing.bits == 4:
        low, high = (stored + 8).view(torch.uint8).chunk(2, -1)
        stored = low | (high << 4)
    groups = rows // (packing.group_size or rows)
    parts = [stored.view(torch.uint8).view(panels, groups, -1)]
    for parameter in (scale, zero_point):
        if parameter is not None:
            parts.append(by_panel(parameter.float()).view(torch.uint8).view(panels, groups, -1))
    return torch.cat(parts, -1).view(panels, rows, packing.row_bytes)


def unpack(weight: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Dequantizes a packed weight to [rows, columns], float32."""
    panels, rows, _ = weight.shape
    group_size = packing.group_size or rows
    count = group_size * packing.value_bytes
    stored = weight.reshape(panels, rows // group_size, -1)
    values = stored[..., :count].reshape(panels, rows, -1)
    if packing.bits == 4:
        values = torch.cat([values & 15, values >> 4], -1).view(torch.int8) - 8
    else:
        values = values.view(torch.int8)
    matrix = values.float().view(panels, rows // group_size, group_size, PANEL)
    if packing.group_size:
        parameters = stored[..., count:].contiguous().view(torch.float32)
        parameters = parameters.view(panels, rows // group_size, -1, 1, PANEL)
        matrix = matrix * parameters[:, :, 0]
        if packing.has_zero_point:
            matrix = matrix + parameters[:, :, 1]
    matrix = matrix.view(panels, rows, PANEL).transpose(0, 1).reshape(rows, -1)
    return matrix[:, : packing.columns]


def _shape(x: torch.Tensor, weight: Any, columns: int, *_: Any) -> torch.Tensor:
    return x.new_empty((x.shape[0], columns))


def _compute(x: torch.Tensor, weight: torch.Tensor, *packing: Any) -> torch.Tensor:
    return (x.float() @ unpack(weight, Packing(*packing))).to(x.dtype)


#: x, [m, rows], float32, bfloat16 or float16, to [m, columns] of that dtype; sums are float32.
QUANTIZED_MM = define(
    "quantized_mm(Tensor x, Tensor weight, int columns, int bits, int group_size,"
    " bool has_zero_point) -> Tensor",
    _shape,
    _compute,
)
