"""Pooling of images and volumes."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *

_LAYOUTS = ("row_major", "channels_last", "swapped", "one_image")
#: Kernel, stride, padding, ceil mode.
_WINDOWS: dict[str, tuple[list[int], list[int], list[int], bool]] = {
    "next_to_each_other": ([2], [], [0], False),
    "padded": ([3], [2], [1], False),
    "ceil": ([3], [2], [1], True),
    "overlapping": ([3], [1], [1], False),
}


def images(
    dims: int, layout: str, dtype: torch.dtype = torch.float32, nan: bool = False
) -> torch.Tensor:
    x = 16 * numbers(*(2, 2, 5, 6) if dims == 2 else (2, 2, 3, 4, 4), dtype=dtype)
    if nan:
        x[..., 1, 2] = float("nan")
    if layout == "channels_last":
        return x.to(memory_format=torch.channels_last if dims == 2 else torch.channels_last_3d)
    if layout == "swapped":
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    return x[0].clone() if layout == "one_image" else x


def _cases(dims: int) -> Iterator[Json]:
    average, maximum = f"_adaptive_avg_pool{dims}d", f"adaptive_max_pool{dims}d"
    for size in {2: [[3, 4], [9, 2]], 3: [[2, 3, 4]]}[dims]:
        for layout in _LAYOUTS:
            name = f"{'x'.join(map(str, size))}/{layout}"
            yield case(name, average, images(dims, layout), size, wide=True)
            yield case(name, maximum, images(dims, layout, nan=True), size)
    yield case("one_number", average, images(dims, "row_major"), [2] * dims, wide=True)
    none = torch.zeros(0, 3, *(4, 5, 6)[3 - dims :])
    yield case("no_images", average, none, [2] * dims)
    yield case("no_images", maximum, none, [2] * dims)

    average, maximum = f"avg_pool{dims}d", f"max_pool{dims}d_with_indices"
    for window, (kernel, stride, padding, ceil) in _WINDOWS.items():
        for layout in _LAYOUTS if ceil else _LAYOUTS[:1]:
            x = images(dims, layout)
            counts: list[tuple[bool, int | None]] = [(ceil, None)]
            if layout == "row_major" and stride == [2]:
                counts = [(True, None), (False, None), (True, 5)]
            for include, divisor in counts:
                name = f"{window}/{layout}/{include}/{divisor}"
                options = (ceil, include, divisor)
                yield case(name, average, x, kernel, stride, padding, *options, wide=True)
            if dims == 3 and layout == "one_image":
                continue  # torch answers in two layouts there, real and traced
            x = images(dims, layout, nan=True)
            for dilation in (1, 2) if kernel[0] < 4 else (1,):
                name = f"{window}/{layout}/{dilation}"
                yield case(name, maximum, x, kernel, stride, padding, [dilation], ceil)
    x = images(dims, "row_major")
    kernel = [2, 3, 2][-dims:]
    yield case("each", average, x, kernel, [1, 2, 3][-dims:], [1] * dims, True, True, None)
    yield case("each", maximum, x, kernel, [1, 2, 3][-dims:], [1] * dims, [1, 2, 1][-dims:], True)
    yield case("no_images", average, none, [2], [], [0], False, True, None)
    yield case("no_images", maximum, none, [2], [], [0], [1], False)


def _errors(dims: int) -> Iterator[Json]:
    average, maximum = f"avg_pool{dims}d", f"max_pool{dims}d_with_indices"
    x, flat = numbers(*(1, 1, 4, 4, 4)[: dims + 2]), numbers(4, 4)
    sizes = f"{dims + 1} or {dims + 2} dimensions"
    for shim in (f"_adaptive_avg_pool{dims}d", f"adaptive_max_pool{dims}d"):
        yield error("rank", shim, flat, [2], parts=["found self float32[4, 4]", sizes])
        yield error("null", shim, None, [2], parts=["self is a null handle"])
        # Of no images; a plane has more positions than can be counted.
        wide = torch.zeros(0, 1, *[1] * dims).expand(0, 1, *[2**31 - 1] * dims)
        yield case("uncountable", shim, wide, [2] * dims)
        many = f"output_size of 4 numbers, expected {dims}"
        yield error("many", shim, x, [2] * 4, parts=[many])
        yield error("negative", shim, x, [-1], parts=["output_size -1"])
        yield error("nothing", shim, x[..., :0], [1], parts=[f"in dimension {dims + 1}"])
        yield error("dtype", shim, x.to(torch.complex64), [2], parts=["found self complex64[1, 1"])
    yield error("integers", average, x.int(), [2], [], [0], False, True, None, parts=["int32[1, 1"])
    for shim, windows, rest in (
        (average, (), (False, True, None)),
        (maximum, ([1],), (False,)),
    ):
        for name, kernel, stride, padding, parts in (
            ("many", [2] * 4, [], [0], [f"kernel_size of 4 numbers, expected {dims}"]),
            ("none", [], [], [0], ["kernel_size of 0 numbers"]),
            ("too_large", [9], [], [0], ["a window of 9 does not fit"]),
            ("zero", [0], [], [0], ["kernel_size 0"]),
            ("stride", [2], [0], [0], ["stride 0"]),
            ("padding", [2], [], [2], ["padding 2", "half of a window of 2"]),
        ):
            yield error(name, shim, x, kernel, stride, padding, *windows, *rest, parts=parts)
        yield error("rank", shim, flat, [2], [], [0], *windows, *rest, parts=[sizes])
    if dims == 3:
        largest: list[list[int]] = [[2**31 - 1], [], [2**30 - 1]]
        many = "more positions than 64 bits count"
        yield error("uncountable", average, x, *largest, False, True, None, parts=[many])
    yield error("divisor", average, x, [2], [], [0], False, True, 0, parts=["divisor_override 0"])
    yield error("dilation", maximum, x, [2], [], [0], [0], False, parts=["dilation 0"])


def cases() -> Iterator[Json]:
    for dims in (2, 3):
        yield from _cases(dims)
        yield from _errors(dims)
    for dtype in FLOATING:
        x = images(2, "channels_last", dtype)
        window: list[list[int]] = [[7, 5], [2, 3], [3, 2]]
        yield case(short(dtype), "_adaptive_avg_pool2d", x, [3, 4], wide=True)
        yield case(short(dtype), "adaptive_max_pool2d", x, [3, 4])
        yield case(short(dtype), "avg_pool2d", x, *window, True, False, None, wide=True)
        yield case(short(dtype), "max_pool2d_with_indices", x, *window, [1], False)
    large = Formula(40, 61, 53, of=(31, 7, 1021, -510, 1), dtype=torch.float32)
    yield case("large", "avg_pool2d", large, [9], [1], [4], False, True, None, wide=True)
    yield case("large", "max_pool2d_with_indices", large, [9], [1], [4], [1], False)
