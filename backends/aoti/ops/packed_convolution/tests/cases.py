"""Convolutions of images with weights that were arranged."""

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import torch

from pteron.backends.aoti.ops.convolution.convolution import (
    PACKED_CONVOLUTION,
    WINOGRAD_CONVOLUTION,
    packed,
    transformed,
)
from pteron.backends.aoti.ops.tests.case import *

#: input, output channels, kernel, stride, padding (above, below, left, right), dilation, groups
_Sizes: TypeAlias = tuple[Sequence[int], int, list[int], list[int], list[int], list[int], int]
_SIZES: list[_Sizes] = [
    ((2, 3, 4, 3), 4, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1),
    ((1, 16, 20, 20), 32, [3, 3], [2, 2], [1, 1, 1, 1], [1, 1], 1),
    ((1, 16, 20, 20), 24, [3, 3], [2, 2], [0, 1, 0, 1], [1, 1], 1),
    ((2, 8, 9, 11), 24, [1, 1], [1, 1], [0, 0, 0, 0], [1, 1], 1),  # a product
    ((1, 8, 9, 11), 24, [1, 1], [2, 2], [0, 0, 0, 0], [1, 1], 1),
    ((1, 40, 14, 13), 40, [3, 3], [2, 1], [0, 1, 2, 0], [1, 1], 40),
    ((1, 96, 14, 15), 96, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 96),
    ((2, 24, 14, 13), 48, [3, 5], [2, 1], [1, 1, 2, 2], [1, 1], 24),  # several of each channel
    ((1, 9, 7, 8), 63, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 9),
    ((1, 3, 7, 8), 24, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 3),
    ((2, 6, 14, 13), 6, [5, 5], [2, 2], [2, 2, 2, 2], [1, 1], 6),
    ((1, 32, 9, 8), 32, [3, 3], [1, 1], [0, 0, 0, 0], [1, 1], 32),  # of the image as it is
    ((1, 3, 64, 64), 16, [7, 7], [2, 2], [3, 3, 3, 3], [1, 1], 1),
    ((1, 32, 7, 7), 150, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1),
    ((1, 1100, 3, 3), 64, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1),  # few vectors in a block
    ((1, 4, 29, 30), 16, [3, 3], [1, 1], [6, 6, 6, 6], [6, 6], 1),
    ((1, 4, 5, 6), 8, [3, 3], [1, 2], [5, 5, 7, 7], [2, 3], 1),  # padding beyond reach
    ((1, 6, 23, 24), 12, [4, 5], [3, 4], [1, 0, 2, 3], [2, 2], 1),
    ((2, 20, 31, 33), 32, [3, 3], [2, 2], [1, 1, 1, 1], [1, 1], 2),
    ((1, 12, 9, 10), 33, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 3),
    ((2, 2, 1, 700), 17, [1, 5], [1, 1], [0, 0, 2, 2], [1, 1], 1),
    ((2, 5, 1, 1), 19, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1),
    ((1, 1, 6, 7), 1, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1),
    ((0, 3, 5, 5), 16, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1),
]  # fmt: skip
#: Times the standard deviation of the results.
_BOUNDS = [(None, None), (0.0, None), (0.0, 1.0), (None, 0.25)]


def _many(sizes: Sequence[int], seed: int) -> Formula:
    """Numbers of many bits between -5 and 5."""
    return Formula(*sizes, of=(7919 + seed, 7, 100003, -50000, 1e-4), dtype=torch.float32)


def _laid_out(formula: Formula, layout: str) -> Formula:
    made = copy.copy(formula)
    if layout == "last":
        made.tensor = made.tensor.movedim(1, -1).contiguous().movedim(-1, 1)
    elif layout == "swapped":
        made.tensor = made.tensor.transpose(2, 3).contiguous().transpose(2, 3)
    return made


def cases() -> Iterator[Json]:
    with torch.backends.mkldnn.flags(enabled=False):
        yield from _numbers()
        yield from _winograd()
    yield from _layouts()
    yield from _not_finite()
    yield from _errors()


def _numbers() -> Iterator[Json]:
    for i, (x, out, kernel, stride, padding, dilation, groups) in enumerate(_SIZES):
        zeros = torch.zeros(out, x[1] // groups, *kernel)
        # What fills panels up is not zero here, and must not show.
        weight = _many(packed(zeros, None, groups).shape, 1)
        for follow in range(4):
            layout = ("planes", "last", "swapped")[(i + follow) % 3]
            image = _laid_out(_many(x, 0), layout)
            window = (out, kernel, stride, padding, dilation, groups)
            plain = PACKED_CONVOLUTION(image.tensor, weight.tensor, None, *window, None, None)
            residual = _laid_out(_many(plain.shape, 2), layout) if follow & 1 else None
            size = float(8 * math.isqrt(zeros[0].numel()))
            bounds = (bound and bound * size for bound in _BOUNDS[(i + follow) % 4])
            arguments = (image, weight, residual, *window, *bounds)
            yield case(f"{i}/{follow}/{layout}", "packed_convolution", *arguments, wide=True)


def _winograd() -> Iterator[Json]:
    sizes = ((1, 32, 8, 9), 40), ((2, 5, 7, 6), 3), ((1, 64, 14, 14), 96), ((0, 3, 5, 5), 16)
    for i, (x, out) in enumerate(sizes):
        weight = packed(transformed(numbers(out, x[1], 3, 3, seed=1)), numbers(out), 1)
        weight.flatten()[-1] += out % 16 and 3  # what fills a panel up
        padding = [[1, 1, 1, 1], [0, 2, 1, 0]][i % 2]
        for follow, layout in enumerate(("planes", "last", "swapped")):
            image = _laid_out(_many(x, 0), layout)
            plain = WINOGRAD_CONVOLUTION(image.tensor, weight, None, out, padding, None, None)
            residual = _laid_out(_many(plain.shape, 2), layout) if follow & 1 else None
            bounds = (bound and bound * 24 * math.isqrt(x[1]) for bound in _BOUNDS[follow])
            arguments = (image, weight, residual, out, padding, *bounds)
            yield case(f"winograd/{i}/{layout}", "winograd_convolution", *arguments, wide=True)


def _layouts() -> Iterator[Json]:
    weight = packed(numbers(5, 3, 3, 3, seed=1), numbers(5), 1)
    window = (5, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1, 0.0, None)
    pairs = zip(layouts(numbers(2, 3, 3, 4)), layouts(numbers(2, 5, 3, 4, seed=2)), strict=True)
    for (layout, x), (_, residual) in pairs:
        yield case(
            f"layout/{layout}", "packed_convolution", x, weight, residual, *window, wide=True
        )


def _not_finite() -> Iterator[Json]:
    """What is not a number stays so through bounds, and infinities are bounded."""
    x = numbers(1, 2, 3, 3)
    x[0, 0, 0, 0], x[0, 1, 2, 2] = float("nan"), float("inf")
    weight = packed(numbers(8, 2, 1, 1, seed=1).abs() + 1, None, 1)
    window = (8, [1, 1], [1, 1], [0, 0, 0, 0], [1, 1], 1, 0.0, 6.0)
    yield case("not_finite", "packed_convolution", x, weight, None, *window, wide=True)


def _errors() -> Iterator[Json]:
    def wrong(name: str, *parts: str, **changes: Any) -> Json:
        named: dict[str, Any] = dict(
            input=numbers(1, 4, 3, 3), weight=packed(numbers(4, 4, 2, 2), None, 1), residual=None,
            out_channels=4, kernel=[2, 2], stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1],
            groups=1, least=None, most=None,
        )  # fmt: skip
        return error(name, "packed_convolution", *(named | changes).values(), parts=parts)

    plain = packed(numbers(4, 4, 3, 3), None, 1)
    yield error(
        "winograd/weight", "winograd_convolution", numbers(1, 4, 3, 3), plain, None, 4, [1] * 4,
        None, None, parts=("weights arranged for these channels and a kernel of 3 x 3",)
    )  # fmt: skip
    yield wrong("null", "input is a null handle", input=None)
    yield wrong("null_weight", "weight is a null handle", weight=None)
    yield wrong("rank", "expected an input of 4 dimensions", input=numbers(1, 4, 3))
    channels = "expected channels that fit the groups"
    yield wrong("groups", "3 groups", channels, groups=3)
    yield wrong("no_groups", "0 groups", channels, groups=0)
    yield wrong("channels", "0 output channels", channels, out_channels=0)
    arranged = "expected weights arranged for these channels and a kernel of"
    yield wrong("weight", "weight float32[4, 4, 2, 2]", arranged, weight=numbers(4, 4, 2, 2))
    yield wrong("kernel_of_others", arranged, kernel=[3, 2])
    gaps = numbers(1, 1, 17, 32)[..., ::2]
    yield wrong("gaps", arranged, weight=gaps)
    yield wrong("residual", "expected a residual like the result", residual=numbers(1, 4, 3, 3))
    yield wrong("padding", "found padding of 2 numbers, expected 4", padding=[1, 1])
    yield wrong("negative", "found padding -1, expected 0 to", padding=[0, 0, -1, 0])
    yield wrong("stride", "found stride 0, expected 1 to", stride=[0, 1])
    yield wrong("no_output", "which give no output", dilation=[3, 1])
    yield wrong("dtype", "expected one dtype", input=numbers(1, 4, 3, 3).double())
    x = numbers(1, 4, 3, 3).double()
    weight = packed(numbers(4, 4, 2, 2).double(), None, 1)
    yield wrong("double", "no kernel for", "float64[1, 4, 3, 3]", input=x, weight=weight)
