"""A matrix product whose right factor is whole numbers of eight or four bits, and their layout.

    quantized_mm(x, pack(levels, scale, shift), ...)  ==  x @ (levels * scale + shift)

A pass makes calls of the operator (`passes.quantized_products`), code generation reads the bytes
(`inductor.packed_products`). Panels of 32 columns lie one after the other; in a panel, groups of
rows that have a scale in common; of a group

* the levels, row after row: 32 bytes, or 16 bytes where there are four bits for each, of which the
  low ones are the first 16 columns and the high ones the others (they hold the level + 8);
* 32 scales, float32;
* 32 shifts, float32, where there are any.
"""

import dataclasses

import torch
import torch.nn.functional as F

#: Columns that lie side by side.
PANEL = 32


@dataclasses.dataclass(frozen=True)
class Packing:
    """What the bytes are.

    Attributes:
        columns: of the matrix; the last panel is filled up with zeros.
        bits: of a level, 8 or 4.
        group: rows that have a scale in common; 0: levels are numbers as they are, of 8 bits.
        has_shift: whether a shift is added.
    """

    columns: int
    bits: int = 8
    group: int = 0
    has_shift: bool = False

    @property
    def level_bytes(self) -> int:
        """Of the levels of a row, in one panel."""
        return PANEL * self.bits // 8

    @property
    def row_bytes(self) -> int:
        """Of a row and its part of the scales and shifts, in one panel."""
        numbers = 4 * PANEL * (1 + self.has_shift)
        return self.level_bytes + (numbers // self.group if self.group else 0)


def pack(
    levels: torch.Tensor,
    packing: Packing,
    scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None,
) -> torch.Tensor:
    """The bytes, [panels, rows, row_bytes], of `levels`, [rows, columns], int8, and of `scale` and
    `shift`, [groups, columns]."""
    rows, columns = levels.shape
    panels = -(-columns // PANEL)

    def by_panel(matrix: torch.Tensor) -> torch.Tensor:
        padded = F.pad(matrix, (0, panels * PANEL - columns))
        return padded.reshape(-1, panels, PANEL).transpose(0, 1).contiguous()

    stored = by_panel(levels)
    if packing.bits == 4:
        low, high = (stored + 8).view(torch.uint8).chunk(2, -1)
        stored = low | (high << 4)
    groups = rows // (packing.group or rows)
    parts = [stored.view(torch.uint8).view(panels, groups, -1)]
    for numbers in (scale, shift):
        if numbers is not None:
            parts.append(by_panel(numbers.float()).view(torch.uint8).view(panels, groups, -1))
    return torch.cat(parts, -1).view(panels, rows, packing.row_bytes)


def unpack(weight: torch.Tensor, packing: Packing) -> torch.Tensor:
    """The matrix, [rows, columns], float32, of which `weight` is the bytes."""
    panels, rows, _ = weight.shape
    group = packing.group or rows
    count = group * packing.level_bytes
    stored = weight.reshape(panels, rows // group, -1)
    levels = stored[..., :count].reshape(panels, rows, -1)
    if packing.bits == 4:
        levels = torch.cat([levels & 15, levels >> 4], -1).view(torch.int8) - 8
    else:
        levels = levels.view(torch.int8)
    matrix = levels.float().view(panels, rows // group, group, PANEL)
    if packing.group:
        numbers = stored[..., count:].contiguous().view(torch.float32)
        numbers = numbers.view(panels, rows // group, -1, 1, PANEL)
        matrix = matrix * numbers[:, :, 0]
        if packing.has_shift:
            matrix = matrix + numbers[:, :, 1]
    matrix = matrix.view(panels, rows, PANEL).transpose(0, 1).reshape(rows, -1)
    return matrix[:, : packing.columns]


_library = torch.library.Library("pteron", "FRAGMENT")
_library.define(
    "quantized_mm(Tensor x, Tensor weight, int columns, int bits, int group, bool has_shift)"
    " -> Tensor"
)


def _shape(
    x: torch.Tensor, weight: torch.Tensor, columns: int, bits: int, group: int, has_shift: bool
) -> torch.Tensor:
    return x.new_empty((x.shape[0], columns))


def _compute(
    x: torch.Tensor, weight: torch.Tensor, columns: int, bits: int, group: int, has_shift: bool
) -> torch.Tensor:
    matrix = unpack(weight, Packing(columns, bits, group, has_shift))
    return (x.float() @ matrix).to(x.dtype)


torch.library.register_fake("pteron::quantized_mm", _shape, lib=_library)
_library.impl("quantized_mm", _compute, "CompositeExplicitAutograd")

#: x: [m, rows], float32, bfloat16 or float16, to [m, columns] of the same; sums are in float32.
QUANTIZED_MM: torch._ops.OpOverload = torch.ops.pteron.quantized_mm.default
