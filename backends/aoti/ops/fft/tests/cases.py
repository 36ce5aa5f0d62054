"""Fourier transforms."""

from collections.abc import Iterator
from typing import Any

import torch

from pteron.backends.aoti.ops.tests.case import *

_TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-13}


def _complex(x: torch.Tensor) -> torch.Tensor:
    return torch.complex(x, x.flip(0))


def cases() -> Iterator[Json]:
    for dtype, tolerance in _TOLERANCE.items():
        options: dict[str, Any] = {"wide": True, "tolerance": tolerance}
        for length in (1, 2, 7, 12, 16, 31, 37):
            rows = 2 if length < 20 else 1
            x = numbers(rows, length, dtype=dtype)
            name, norm = f"{short(dtype)}/{length}", length % 3
            yield case(f"{name}/half", "_fft_r2c", x, [1], norm, True, **options)
            yield case(f"{name}/whole", "_fft_r2c", x, [1], norm, False, **options)
            yield case(f"{name}/forward", "_fft_c2c", _complex(x), [1], norm, True, **options)
            yield case(f"{name}/backward", "_fft_c2c", _complex(x), [1], norm, False, **options)
            half = _complex(numbers(rows, length // 2 + 1, dtype=dtype))
            yield case(name, "_fft_c2r", half, [1], norm, length, **options)
        for length in (64, 100, 210, 202, 509, 1024):
            large = Formula(40, length, of=(7919, 1, 100003, -50000, 1e-4), dtype=dtype)
            yield case(f"{short(dtype)}/{length}", "_fft_r2c", large, [1], 0, True, **options)

    options["tolerance"] = _TOLERANCE[torch.float32]
    for layout, x in layouts(numbers(2, 3, 4)):
        for dims in ([0], [2], [0, 1], [1, 2], [0, 1, 2], [2, 0]):
            name = f"{layout}/{''.join(map(str, dims))}"
            yield case(f"{name}/half", "_fft_r2c", x, dims, 0, True, **options)
            if layout == "swapped":
                yield case(f"{name}/whole", "_fft_r2c", x, dims, 1, False, **options)
    for layout, x in layouts(numbers(2, 3, 4, dtype=torch.complex64)):
        for dims in ([0], [0, 1], [1, 2], [0, 1, 2], [2, 0]):
            name = f"{layout}/{''.join(map(str, dims))}"
            yield case(name, "_fft_c2c", x, dims, 1, True, **options)
            size = 2 * x.shape[dims[-1]] - 1
            yield case(name, "_fft_c2r", x, dims, 2, size, **options)
    x = numbers(2, 3, 2, 3, dtype=torch.complex64)
    yield case("four_dimensions", "_fft_c2c", x, [0, 1, 2, 3], 0, True, **options)
    yield case("four_dimensions", "_fft_c2r", x, [3, 2, 1, 0], 0, 2, **options)
    yield case("four_dimensions", "_fft_r2c", numbers(2, 3, 2, 3), [3, 0, 1, 2], 0, True, **options)
    yield case("no_dimensions", "_fft_c2c", x.transpose(0, 1), [], 1, True, **options)

    x, real = numbers(3, 4, dtype=torch.complex64), numbers(3, 4)
    for shim, operand, other, last in (
        ("_fft_c2c", x, real, True),
        ("_fft_r2c", real, x, True),
        ("_fft_c2r", x, real, 6),
    ):
        found = [f"found self {short(other.dtype)}[3, 4]"]
        yield error("dtype", shim, other, [1], 0, last, parts=found)
        yield error("normalization", shim, operand, [1], 3, last, parts=["normalization 3"])
        yield error("dim", shim, operand, [2], 0, last, parts=["dimension 2"])
        yield error("twice", shim, operand, [1, 1], 0, last, parts=["dimension 1", "each once"])
        yield error("nothing", shim, operand[:, :0], [1], 0, last, parts=["none of size 0"])
    yield error("no_dimensions", "_fft_r2c", real, [], 0, True, parts=["no dimensions"])
    yield error("no_dimensions", "_fft_c2r", x, [], 0, 6, parts=["0 dimensions"])
    yield error("size", "_fft_c2r", x, [1], 0, 8, parts=["last_dim_size 8"])
