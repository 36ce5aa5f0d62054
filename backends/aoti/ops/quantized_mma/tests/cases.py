"""GEMM with quantized weights that were packed for tensor cores."""

from collections.abc import Iterator
from typing import Any

import torch

from pteron.backends.aoti.ops.quantized_mma.quantized_mma import pack, pack_parameter
from pteron.backends.aoti.ops.tests.case import *

#: Rows of x; of the weight; columns. Few and many rows, parts of strips, few and many chunks.
_SIZES = [(1, 64, 16), (3, 128, 41), (8, 2048, 48), (9, 192, 130), (16, 256, 16), (33, 320, 20)]
_SIZES += [(60, 128, 40), (2, 64, 1), (0, 64, 16)]
#: Of which a GPU computes several strips together, the last ones in part; large files.
_WIDE = {"int4": [(33, 192, 1030), (17, 64, 6150)], "int8": [(17, 192, 1030)], "float8": []}


def weight(kind: str, rows: int, columns: int) -> torch.Tensor:
    values = numbers(rows, columns, dtype=torch.int8)
    if kind == "float8":
        return (values / 16).to(torch.float8_e4m3fn)
    return values if kind == "int4" else values * 17


def parameters(groups: int, columns: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return pack_parameter(numbers(groups, columns, dtype=dtype, seed=seed))


def cases() -> Iterator[Json]:
    for dtype in (torch.bfloat16, torch.float16):
        for kind in ("int4", "int8", "float8"):
            for m, k, n in _SIZES + _WIDE[kind] * (dtype is torch.bfloat16):
                x, packed = numbers(m, k, dtype=dtype, seed=3) / 4, pack(weight(kind, k, n))
                sizes = (
                    [k] if kind == "float8" else [k, *(g for g in (32, 64) if k % g == 0 and g < k)]
                )
                for size in sizes:
                    scale = parameters(k // size, n, dtype, 1) / 16
                    zeros = [None] if kind == "float8" or size == 64 else [None, 2]
                    for seed in zeros:
                        zero = seed and parameters(k // size, n, torch.float32, seed)
                        name = f"{short(dtype)}/{kind}/{m}x{k}x{n}/{size}{'z' * bool(seed)}"
                        yield _case(name, x, packed, scale, zero, n)
    scale = parameters(1, 20, torch.bfloat16, 1)
    for layout, x in layouts(numbers(5, 128, dtype=torch.bfloat16)):
        yield _case(layout, x, pack(weight("int8", 128, 20)), scale, None, 20)
    yield from _fused()
    yield from _plain()
    yield from _errors()


#: Rows and columns of the weight: less and more than a warp has, several strips a block, long rows.
_FUSED_SIZES = [(64, 16), (192, 144), (64, 4112), (4096, 16), (16384, 16)]


def _fused() -> Iterator[Json]:
    for dtype, kind, group in (
        (torch.bfloat16, "int4", 32),
        (torch.bfloat16, "int8", 0),
        (torch.float16, "int4", 64),
        (torch.float16, "float8", 0),
    ):
        for k, n in _FUSED_SIZES:
            scale = parameters(k // (group or k), n, dtype, 1) / 64
            norm, residual = numbers(k, dtype=dtype, seed=4), numbers(1, n, dtype=dtype, seed=5)
            x, packed = numbers(1, k, dtype=dtype, seed=3) / 4, pack(weight(kind, k, n))
            whats = ("norm", "norm residual", "residual", "gated", "norm gated")
            for what in whats if k * n < 1 << 15 else whats[::2]:
                name = f"fused/{short(dtype)}/{kind}/{k}x{n}/{what.replace(' ', '_')}"
                arguments = (norm if "norm" in what else None, 1e-5)
                more = (residual if "residual" in what else None, "gated" in what)
                yield case(
                    name,
                    *("fused_mma", x, packed, None, None, scale, None, n, *arguments, *more),
                    tolerance=2 * TOLERANCE[dtype],
                )
    scale, norm = parameters(1, 16, torch.bfloat16, 1) / 64, numbers(128, dtype=torch.bfloat16)
    for layout, x in layouts(numbers(1, 128, dtype=torch.bfloat16)):
        packed = pack(weight("int8", 128, 16))
        yield case(
            f"fused/{layout}",
            *("fused_mma", x, packed, None, None, scale, None, 16, norm, 1e-5, None, False),
            tolerance=TOLERANCE[torch.bfloat16],
        )


#: Rows, and columns of each weight that is not quantized; the last with several strips a block.
_PLAIN_SIZES = [(64, 16), (192, 144, 16), (64, 64, 16, 48), (2048, 16), (64, 2112)]


def _plain() -> Iterator[Json]:
    for dtype in (torch.bfloat16, torch.float16):
        for k, *columns in _PLAIN_SIZES[: None if dtype is torch.bfloat16 else 4]:
            n, norm = sum(columns), numbers(k, dtype=dtype, seed=4)
            x, residual = numbers(1, k, dtype=dtype, seed=3) / 4, numbers(1, n, dtype=dtype, seed=5)
            whats = ("product", "norm", "norm residual", "norm gated")
            for what in whats if k * n < 1 << 15 else whats[3:]:
                parts = columns[:1] * 2 if "gated" in what else columns
                weights: list[torch.Tensor | None] = [
                    numbers(size, k, dtype=dtype, seed=i) / 64 for i, size in enumerate(parts)
                ]
                weights += [None] * (3 - len(weights))
                fused: list[Any] = [sum(parts), norm if "norm" in what else None, 1e-5]
                fused += [residual if "residual" in what else None, "gated" in what]
                name = f"plain/{short(dtype)}/{k}x{n}/{what.replace(' ', '_')}"
                arguments = [x, *weights, None, None, *fused]
                yield case(name, "fused_mma", *arguments, tolerance=2 * TOLERANCE[dtype])
    weight = numbers(16, 128, dtype=torch.bfloat16) / 64
    for layout, x in layouts(numbers(1, 128, dtype=torch.bfloat16)):
        yield case(
            f"plain/{layout}",
            *("fused_mma", x, weight, None, None, None, None, 16, None, 0.0, None, False),
            tolerance=TOLERANCE[torch.bfloat16],
        )


def _case(name: str, *arguments: Any) -> Json:
    return case(name, "quantized_mma", *arguments, tolerance=TOLERANCE[arguments[0].dtype])


def _errors() -> Iterator[Json]:
    def wrong(name: str, *parts: str, **changes: Any) -> Json:
        named: dict[str, Any] = dict(
            x=numbers(2, 128, dtype=torch.float16), weight=pack(weight("int8", 128, 20)),
            scales=parameters(2, 20, torch.float16, 0), zero_points=None, columns=20,
        )  # fmt: skip
        return error(name, "quantized_mma", *(named | changes).values(), parts=parts)

    yield wrong("null", "x is a null handle", x=None)
    yield wrong("float32", "found float32[2, 128]", "expected float16 or", x=numbers(2, 128))
    yield wrong("weight", "a weight of uint8, int8 or", weight=numbers(2, 2, 1024))
    yield wrong("scales", "scales like x", scales=parameters(2, 20, torch.float32, 0))
    packed_for = "a weight packed for k rows and these columns"
    yield wrong("depth", packed_for, x=numbers(2, 64, dtype=torch.float16))
    yield wrong("columns", "33 columns", packed_for, columns=33)
    yield wrong("strips", "16 columns", packed_for, columns=16)
    yield wrong("negative", "-1 columns", packed_for, columns=-1)
    yield wrong("empty", packed_for, weight=torch.zeros(2, 0, 1024, dtype=torch.int8))
    yield wrong("padded", packed_for, scales=numbers(2, 20, dtype=torch.float16))
    zero = parameters(1, 20, torch.float32, 0)
    yield wrong("zero_points", packed_for, "zero points float32[1, 32]", zero_points=zero)
    groups = "expected groups of a power of two rows from 32"
    yield wrong("groups", groups, scales=parameters(3, 20, torch.float16, 0))
    yield wrong("small_groups", groups, scales=parameters(8, 20, torch.float16, 0))
    float8 = pack(weight("float8", 128, 20))
    yield wrong("float8", "of float8 one group without zero points", weight=float8)

    def unfused(name: str, *parts: str, **changes: Any) -> Json:
        named: dict[str, Any] = dict(
            x=numbers(1, 128, dtype=torch.float16), weight=pack(weight("int8", 128, 16)),
            second=None, third=None,
            scales=parameters(2, 16, torch.float16, 0), zero_points=None, columns=16, norm=None,
            epsilon=0.0, residual=None, gated=False,
        )  # fmt: skip
        arguments = (named | changes).values()
        return error(f"fused/{name}", "fused_mma", *arguments, parts=parts)

    row = "expected one row of at most 16384 elements, a norm and a residual of its dtype"
    yield unfused("rows", row, x=numbers(2, 128, dtype=torch.float16))
    yield unfused("norm", "norm float32[128]", row, norm=numbers(128))
    yield unfused("residual", row, residual=numbers(1, 20, dtype=torch.float16))
    both = numbers(1, 16, dtype=torch.float16)
    yield unfused("both", "16 columns of two matrices", row, residual=both, gated=True)
    yield unfused("half", "12 columns of two matrices", row, columns=12, gated=True)

    def plain(name: str, **changes: Any) -> Json:
        rows = numbers(16, 128, dtype=torch.float16)
        expected = ("contiguous weights, [n, k] with n a multiple of 16, of these columns",)
        named = dict(weight=rows, scales=None) | changes
        return unfused(f"plain/{name}", *expected, **named)

    yield plain("float32", weight=numbers(16, 128))
    yield plain("columns", columns=32)
    yield plain("odd", weight=numbers(20, 128, dtype=torch.float16), columns=20)
    yield plain("depth", weight=numbers(16, 64, dtype=torch.float16))
    yield plain("gaps", weight=numbers(32, 128, dtype=torch.float16)[::2])
    yield plain("half", columns=16, gated=True)
