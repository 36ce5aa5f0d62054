"""Convolutions."""

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import torch

from pteron.backends.aoti.ops.tests.case import *

#: input, weight, stride, padding, dilation, transposed, output padding, groups
_Sizes: TypeAlias = tuple[
    Sequence[int], Sequence[int], list[int], list[int], list[int], bool, list[int], int
]
_SMALL: list[_Sizes] = [
    ((2, 3, 9), (5, 3, 4), [2], [1], [1], False, [0], 1),
    ((1, 4, 9), (6, 2, 3), [1], [2], [2], False, [0], 2),
    ((2, 3, 4, 3), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 4, 7, 5), (2, 4, 3, 5), [2, 3], [1, 2], [1, 1], False, [0, 0], 1),
    ((2, 8, 3, 4), (6, 8, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ((1, 6, 5, 5), (6, 1, 3, 3), [2, 1], [1, 1], [1, 1], False, [0, 0], 6),
    ((1, 6, 8, 5), (6, 2, 3, 2), [3, 1], [0, 2], [2, 3], False, [0, 0], 3),
    ((1, 1, 1, 1), (4, 1, 3, 3), [1], [1], [1], False, [0], 1),
    ((0, 3, 5, 5), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 2, 4, 4, 5), (3, 2, 2, 3, 3), [1, 2, 1], [0, 1, 1], [1, 1, 2], False, [0, 0, 0], 1),
    ((2, 3, 7), (3, 5, 4), [2], [1], [1], True, [1], 1),
    ((2, 3, 4, 3), (3, 4, 3, 3), [1, 1], [1, 1], [1, 1], True, [0, 0], 1),
    ((2, 4, 3, 4), (4, 3, 3, 3), [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
    ((1, 4, 3, 4), (4, 2, 4, 3), [3, 1], [0, 2], [1, 2], True, [2, 0], 2),
    ((1, 4, 2, 3, 3), (4, 2, 2, 3, 2), [2, 1, 2], [0, 1, 0], [1, 1, 1], True, [1, 0, 0], 1),
]  # fmt: skip
_LARGE: list[_Sizes] = [
    ((1, 16, 20, 20), (32, 16, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 1),
    ((2, 8, 9, 11), (24, 8, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ((1, 8, 9, 11), (24, 8, 1, 1), [2, 2], [0, 0], [1, 1], False, [0, 0], 1),
    ((1, 40, 14, 13), (40, 1, 3, 3), [2, 1], [1, 1], [1, 1], False, [0, 0], 40),
    ((2, 12, 14, 13), (24, 1, 5, 5), [2, 2], [2, 2], [1, 1], False, [0, 0], 12),
    ((1, 3, 64, 64), (16, 3, 7, 7), [2, 2], [3, 3], [1, 1], False, [0, 0], 1),
    ((2, 5, 1, 1), (19, 5, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 32, 7, 7), (150, 32, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((3, 48, 4, 5), (96, 48, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 6, 14, 13), (35, 6, 5, 3), [1, 1], [2, 1], [1, 1], False, [0, 0], 1),
    ((2, 20, 31, 33), (22, 10, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 2),
    ((1, 4, 29, 30), (16, 4, 3, 3), [1, 1], [6, 6], [6, 6], False, [0, 0], 1),
    ((1, 4, 5, 6), (8, 4, 3, 3), [1, 2], [5, 7], [2, 3], False, [0, 0], 1),
    ((1, 6, 23, 24), (12, 6, 4, 5), [3, 4], [1, 2], [2, 2], False, [0, 0], 1),
    ((1, 8, 40, 41), (16, 8, 1, 1), [2, 3], [1, 0], [1, 1], False, [0, 0], 1),
    ((1, 3, 64, 64), (24, 3, 8, 8), [8, 8], [0, 0], [1, 1], False, [0, 0], 1),
    ((1, 64, 48, 48), (64, 64, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((1, 2, 3, 1500), (17, 2, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    ((2, 16, 17, 18), (32, 4, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 4),
    ((2, 10, 700), (33, 10, 5), [1], [2], [1], False, [0], 1),
    ((1, 12, 999), (24, 6, 4), [3], [4], [2], False, [0], 2),
    ((2, 4, 5, 6, 7), (4, 1, 3, 3, 3), [1, 1, 1], [1, 1, 1], [1, 1, 1], False, [0, 0, 0], 4),
    ((2, 6, 17, 18), (6, 14, 3, 3), [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
    ((1, 8, 15, 15), (8, 1, 2, 2), [2, 2], [0, 0], [1, 1], True, [0, 0], 8),
]  # fmt: skip
_GOOD = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)


def channels_innermost(tensor: torch.Tensor) -> torch.Tensor:
    """Channels-last, of any number of dimensions."""
    return tensor.movedim(1, -1).contiguous().movedim(-1, 1)


def many(sizes: Sequence[int], seed: int, is_last: bool) -> Formula:
    """Numbers of many bits: TF32 would show."""
    made = Formula(*sizes, of=(7919 + seed, 7, 100003, -50000, 1e-4), dtype=torch.float32)
    if is_last:
        made = copy.copy(made)
        made.tensor = channels_innermost(made.tensor)
    return made


def cases() -> Iterator[Json]:
    # Not oneDNN's layouts, which generated code does not expect.
    with torch.backends.mkldnn.flags(enabled=False):
        yield from _numbers()
        yield from _layouts()
        yield from _fused()
    yield from _errors()


def _numbers() -> Iterator[Json]:
    for i, shape in enumerate(_SMALL):
        for dtype in dict.fromkeys((torch.float32, FLOATING[i % 4])):
            x = numbers(*shape[0], dtype=dtype)
            weight = numbers(*shape[1], dtype=dtype, seed=1) / 4
            bias = None if i % 3 == 0 else numbers(_out_channels(shape), dtype=dtype)
            name = f"{short(dtype)}/{i}"
            yield case(name, "convolution", x, weight, bias, *shape[2:], wide=True)
    for i, shape in enumerate(_LARGE):
        for layout in ("row_major", "input_last", "both_last")[: 1 if len(shape[0]) == 5 else 3]:
            arguments = (
                many(shape[0], 0, layout != "row_major"),
                many(shape[1], 1, layout == "both_last"),
                many((_out_channels(shape),), 2, False) if layout != "input_last" else None,
                *shape[2:],
            )
            yield case(f"large/{i}/{layout}", "convolution", *arguments, wide=True)


def _fused() -> Iterator[Json]:
    """Each tuple of what follows, each layout and dtype in turn."""
    shapes = [shape for shape in (*_SMALL, *_LARGE[:4], *_LARGE[10:12]) if not shape[5]]
    for i, (x, taps, stride, padding, dilation, _, _, groups) in enumerate(shapes):
        dtype = FLOATING[i % 4]
        for follow in range(8):
            layout = (lambda tensor: tensor) if (i + follow) % 3 == 0 else channels_innermost
            input = layout(numbers(*x, dtype=dtype))
            weight = layout(numbers(*taps, dtype=dtype, seed=1) / 16)
            bias = numbers(taps[0], dtype=dtype) if follow & 1 else None
            zeros = [0] * len(stride)
            plain = torch.ops.aten.convolution(
                input, weight, None, stride, padding, dilation, False, zeros, groups
            )
            residual = numbers(*plain.shape, dtype=dtype, seed=2) if follow & 2 else None
            window = (stride, padding, dilation, groups, bool(follow & 4))
            name = f"fused/{i}/{short(dtype)}/{follow}"
            yield case(name, "fused_convolution", input, weight, bias, residual, *window, wide=True)


def _out_channels(shape: _Sizes) -> int:
    weight, transposed, groups = shape[1], shape[5], shape[7]
    return weight[1] * groups if transposed else weight[0]


def _layouts() -> Iterator[Json]:
    """The result is channels-last where torch's is."""

    def both(tensor: torch.Tensor) -> list[torch.Tensor]:
        return [tensor, channels_innermost(tensor)]

    x, weight, bias = numbers(2, 3, 3, 4), numbers(2, 3, 3, 3, seed=1), numbers(4)[::2]
    for (layout, a), (_, b) in zip(layouts(x), layouts(weight), strict=True):
        yield case(f"bias/{layout}", "convolution", a, weight, bias, *_GOOD, wide=True)
        yield case(f"weight/{layout}", "convolution", x, b, bias, *_GOOD, wide=True)
    pairs = [
        *itertools.product(both(x), both(weight)),
        (x.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2), weight),
        (channels_innermost(numbers(2, 1, 3, 4)), numbers(2, 1, 3, 3)),
        (channels_innermost(numbers(2, 3, 1, 1)), numbers(2, 3, 1, 1)),
        *itertools.product(both(numbers(2, 3, 5)), both(numbers(2, 3, 3))),
        *itertools.product([numbers(2, 3, 5)], both(numbers(2, 3, 1))),
    ]
    for i, (a, b) in enumerate(pairs):
        ones, zeros = [1] * (a.dim() - 2), [0] * (a.dim() - 2)
        padding = [b.shape[2] // 2] * len(ones)
        order = sorted(range(b.dim()), key=lambda d: -b.stride()[d])
        inverse = sorted(range(b.dim()), key=order.__getitem__)
        swapped = b.transpose(0, 1).permute(order).contiguous().permute(inverse)
        for transposed, taps in ((False, b), (True, swapped)):
            rest = (ones, padding, ones, transposed, zeros, 1)
            name = f"layout/{i}/{'transposed' if transposed else 'forward'}"
            yield case(name, "convolution", a, taps, None, *rest, wide=True)

    # torch's is row-major where it does without oneDNN, but generated code gives it operands like
    # the result that it expects.
    def volume(*arguments: Any) -> torch.Tensor:
        return channels_innermost(torch.ops.aten.convolution(*arguments))

    rest = ([1], [1], [1], False, [0], 1)
    volumes, kernels = both(numbers(1, 2, 3, 3, 4)), both(numbers(3, 2, 2, 2, 2))
    for i, operands in list(enumerate(itertools.product(volumes, kernels)))[1:]:
        arguments = (*operands, None, *rest)
        yield case(f"volume/{i}", "convolution", *arguments, reference=volume, tolerance=4e-6)


def _errors() -> Iterator[Json]:
    def wrong(name: str, *parts: str, **changes: Any) -> Json:
        named: dict[str, Any] = dict(
            input=numbers(1, 4, 3, 3), weight=numbers(4, 4, 2, 2), bias=None, stride=[1, 1],
            padding=[0, 0], dilation=[1, 1], transposed=False, output_padding=[0, 0], groups=1,
        )  # fmt: skip
        return error(name, "convolution", *(named | changes).values(), parts=parts)

    yield wrong("null", "input is a null handle", input=None)
    yield wrong("null_weight", "weight is a null handle", weight=None)
    channels = "expected channels that fit the groups"
    yield wrong("channels", "weight float32[4, 3, 2, 2]", channels, weight=numbers(4, 3, 2, 2))
    yield wrong("groups", "3 groups", channels, groups=3)
    yield wrong("no_groups", "0 groups", channels, groups=0)
    yield wrong("many_groups", channels, groups=2**62)
    yield wrong("none_of_many", channels, weight=numbers(0, 4, 2, 2), groups=2**62)
    none = dict(input=numbers(1, 0, 3, 3), weight=numbers(0, 4, 2, 2), transposed=True)
    yield wrong("transposed_many", channels, **none, groups=2**62)
    yield wrong(
        "transposed", "transposed, 1 groups", channels, weight=numbers(3, 4, 2, 2), transposed=True
    )
    yield wrong("bias", "bias float32[5]", "expected a bias of 4 numbers", bias=numbers(5))
    named = (numbers(1, 4, 3, 3), numbers(4, 4, 2, 2), None)
    window = ([1, 1], [0, 0], [1, 1], 1, False)
    parts = ["found residual", "expected one like the result of input"]
    wrongs = {"sizes": numbers(1, 4, 3, 3), "dtype": numbers(1, 4, 2, 2).double()}
    for what, residual in wrongs.items():
        name = f"residual_{what}"
        yield error(name, "fused_convolution", *named, residual, *window, parts=parts)
    large = numbers(4, 4, 4, 4)
    yield wrong("kernel", "weight float32[4, 4, 4, 4], which give no output", weight=large)
    yield wrong("stride", "found stride 0, expected 1 to", stride=[0, 1])
    yield wrong("padding", "found padding -1, expected 0 to", padding=[-1, 0])
    yield wrong("list", "found dilation of 3 numbers, expected 2", dilation=[1, 1, 1])
    yield wrong("rank", "3 to 5 dimensions", weight=numbers(4, 4, 2))
    weight = numbers(4, 4, 2, 2)
    yield wrong("dtype", "weight float64[4, 4, 2, 2]", "one dtype", weight=weight.double())
    x, weight = numbers(1, 4, 3, 3).int(), weight.int()
    yield wrong("integers", "no kernel for", "int32[1, 4, 3, 3]", input=x, weight=weight)
