"""GEMM with a quantized weight on tensor cores: the operator, and the layout of its packed weight.

    quantized_mma(x, *pack(values, scale, zero_point))  ==  x @ (values * scale + zero_point)

`values` are [rows, columns], int8 (packed as int4 if all fit) or float8_e4m3fn; a pass inserts
calls of the operator (`passes/quantized_gemm.py`). The packed weight is read by
`cuda/runtime/shims/quantized_mma.cuh`, [strips of 16 columns, chunks of 64 rows, bytes of a chunk].
In a chunk, thread 4 g + t of a warp has rows 16 q + 4 t + 2 p + e, for q and p and e, of columns g
and g + 8 of the strip: what it needs of each mma.m16n8k16 in consecutive bytes.
"""

import torch
import torch.nn.functional as F

from pteron.backends.aoti.ops.custom_operator import define

#: Columns of a strip, rows of a chunk.
STRIP, CHUNK = 16, 64
#: Elements of the longest row that the operator normalizes.
MOST_NORMALIZED = 1 << 14
#: The dtype of a packed weight, by which the operator knows its format: int4, int8, float8.
_INT4, _INT8, _FLOAT8 = torch.uint8, torch.int8, torch.float8_e4m3fn


def pack(values: torch.Tensor) -> torch.Tensor:
    """Packs [rows, columns], int8 or float8_e4m3fn; rows must be a multiple of 64. Values of -8 to
    7 become int4."""
    rows, columns = values.shape
    strips = -(-columns // STRIP)
    stored = values.view(torch.uint8)
    bits = 8
    if values.dtype == torch.int8:
        low, high = values.aminmax()
        bits = 4 if low >= -8 and high <= 7 else 8
        stored = stored ^ 0x80 if bits == 8 else (values + 8).view(torch.uint8)
    padded = F.pad(stored, (0, strips * STRIP - columns))
    # strip, h, g; chunk, q, t, p, e
    parts = padded.T.reshape(strips, 2, 8, rows // CHUNK, 4, 4, 2, 2)
    if bits == 4:
        both = parts[:, 0] | parts[:, 1] << 4
        return both.permute(0, 2, 1, 4, 3, 6, 5).reshape(strips, rows // CHUNK, -1).contiguous()
    packed = parts.unflatten(4, (2, 2)).permute(0, 3, 4, 2, 6, 5, 7, 8, 1)
    dtype = _INT8 if values.dtype == torch.int8 else _FLOAT8
    return packed.reshape(strips, rows // CHUNK, -1).contiguous().view(dtype)


def pack_parameter(parameter: torch.Tensor) -> torch.Tensor:
    """Pads scales or zero points, [groups, columns], to whole strips."""
    return F.pad(parameter, (0, -parameter.shape[1] % STRIP)).contiguous()


def unpack(weight: torch.Tensor) -> torch.Tensor:
    """The values of a packed weight, [rows, 16 * strips], float32."""
    strips, chunks, _ = weight.shape
    stored = weight.view(torch.uint8)
    if weight.dtype == _INT4:
        both = stored.reshape(strips, chunks, 8, 4, 4, 2, 2).permute(0, 2, 1, 4, 3, 6, 5)
        parts = torch.stack([both & 15, both >> 4], 1)
    else:
        shape = (strips, chunks, 2, 8, 4, 2, 2, 2, 2)
        parts = stored.reshape(shape).permute(0, 8, 3, 1, 2, 5, 4, 6, 7).flatten(4, 5)
    matrix = parts.reshape(strips * STRIP, chunks * CHUNK).T
    if weight.dtype == _FLOAT8:
        return matrix.contiguous().view(_FLOAT8).float()
    return matrix.float() - (8 if weight.dtype == _INT4 else 128)


def _compute(
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    columns: int,
) -> torch.Tensor:
    values = unpack(weight)
    groups = scales.shape[0]
    matrix = values.view(groups, -1, values.shape[1]) * scales.float()[:, None]
    if zero_points is not None:
        matrix = matrix + zero_points[:, None]
    return (x.float() @ matrix.view_as(values)[:, :columns]).to(x.dtype)


#: x, [m, rows], bfloat16 or float16, to [m, columns] of that dtype; scales, [groups, 16 * strips],
#: are of that dtype, zero points float32; sums are float32.
QUANTIZED_MMA = define(
    "quantized_mma(Tensor x, Tensor weight, Tensor scales, Tensor? zero_points, int columns)"
    " -> Tensor",
    lambda x, weight, scales, zero_points, columns: x.new_empty((x.shape[0], columns)),
    _compute,
)


def interleave(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Half a strip of columns of each in turns, as of a gated GEMM."""
    halves = [each.unflatten(1, (-1, STRIP // 2)) for each in (first, second)]
    return torch.stack(halves, 2).flatten(1)


def _compute_fused(
    x: torch.Tensor,
    weight: torch.Tensor,
    second: torch.Tensor | None,
    third: torch.Tensor | None,
    scales: torch.Tensor | None,
    zero_points: torch.Tensor | None,
    columns: int,
    norm: torch.Tensor | None,
    epsilon: float,
    residual: torch.Tensor | None,
    gated: bool,
) -> torch.Tensor:
    if norm is not None:
        wide = x.float()
        x = norm * (wide * (wide.square().mean(-1, keepdim=True) + epsilon).rsqrt()).to(x.dtype)
    if scales is not None:
        product = _compute(x, weight, scales, zero_points, columns)
    else:
        parts = [each.T for each in (weight, second, third) if each is not None]
        joined = interleave(*parts) if gated else torch.cat(parts, 1)
        product = (x.float() @ joined.float()).to(x.dtype)
    if gated:
        first, other = product.unflatten(1, (-1, 2, STRIP // 2)).unbind(2)
        product = F.silu(first).flatten(1) * other.flatten(1)
    return product if residual is None else product + residual


#: Of one row: with RMSNorm of x before, if there is `norm`, and with `residual` added, or, `gated`,
#: silu(x @ a) * (x @ b) of a weight of two that `interleave` made. Without `scales` weights are not
#: quantized, [columns, rows], and lie side by side; gated: a and b.
FUSED_MMA = define(
    "fused_mma(Tensor x, Tensor weight, Tensor? second, Tensor? third, Tensor? scales,"
    " Tensor? zero_points, int columns, Tensor? norm, float epsilon, Tensor? residual, bool gated)"
    " -> Tensor",
    lambda x, *arguments: x.new_empty((x.shape[0], arguments[5] // (1 + arguments[9]))),
    _compute_fused,
)
