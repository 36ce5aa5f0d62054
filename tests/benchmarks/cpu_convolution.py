"""Convolutions alone: our kernels against eager torch (oneDNN), interleaved in one process.

  tools/bazel run //tests/benchmarks:cpu_convolution -- --rounds=50

Each shape is measured in both layouts of images. Calls go through the shim that compiled models
call, so the times include making the result, on OMP_NUM_THREADS threads. Ratios below 1 mean that
ours is faster; the median over rounds counts. A result that differs from eager's is an error, not a
time.
"""

import dataclasses
import functools
import math
import os
import pathlib
import statistics
import time
from collections.abc import Callable

import torch
from absl import app, flags, logging

import pteron.backends.cpu.runtime as cpu_runtime
from pteron.command.contender import by_turns, text_table
from tests.benchmarks.shim_caller import Optional, ShimLibrary

_ROUNDS = flags.DEFINE_integer("rounds", 40, "Rounds through both contenders.")
_MIN_ROUND_MS = flags.DEFINE_float("min_round_ms", 3.0, "Calls of one round take at least so long.")
_PAUSE_MS = flags.DEFINE_float(
    "pause_ms", 10.0, "Pause before each turn, in which the other's threads cease to spin."
)
_STATISTIC = flags.DEFINE_enum(
    "statistic", "median", ["median", "minimum"], "Of the rounds; the least, on a busy machine."
)
_SHAPES = flags.DEFINE_string("shapes", "", "Only shapes whose name contains this.")
_LAYOUTS = flags.DEFINE_list("layouts", ["planes", "channels_last"], "Layouts of the images.")


@dataclasses.dataclass(frozen=True)
class Shape:
    """A convolution; `size` is height and width."""

    name: str
    channels: tuple[int, int]
    size: tuple[int, int]
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    groups: int = 1
    batch: int = 1


SHAPES = (
    Shape("first 7x7 s2, 224", (3, 64), (224, 224), (7, 7), stride=2, padding=3),
    Shape("first 3x3 s2, 96", (3, 16), (96, 96), stride=2),
    Shape("3x3 s2, 48", (16, 32), (48, 48), stride=2),
    Shape("3x3 s2, 24", (32, 64), (24, 24), stride=2),
    Shape("resnet 3x3, 56", (64, 64), (56, 56)),
    Shape("resnet 3x3 s2, 56", (64, 128), (56, 56), stride=2),
    Shape("resnet 3x3, 28", (128, 128), (28, 28)),
    Shape("resnet 3x3, 14", (256, 256), (14, 14)),
    Shape("resnet 3x3, 7", (512, 512), (7, 7)),
    Shape("resnet 3x3, 14, batch 4", (256, 256), (14, 14), batch=4),
    Shape("downsample 1x1 s2, 56", (64, 128), (56, 56), (1, 1), stride=2, padding=0),
    Shape("unet 3x3, 96", (32, 32), (96, 96)),
    Shape("unet 3x3, 12", (192, 256), (12, 12)),
    Shape("last 3x3 to 3, 96", (64, 3), (96, 96)),
    Shape("dilated 3x3 d4, 32", (128, 128), (32, 32), padding=4, dilation=4),
    Shape("groups of 4, 56", (128, 128), (56, 56), groups=32),
    Shape("groups of 8, 28", (256, 256), (28, 28), groups=32),
    Shape("depthwise 3x3, 48", (64, 64), (48, 48), groups=64),
    Shape("depthwise 3x3, 7", (512, 512), (7, 7), groups=512),
    Shape("depthwise 7x7, 56", (96, 96), (56, 56), (7, 7), padding=3, groups=96),
    Shape("depthwise 5x5 s2, 28", (240, 240), (28, 28), (5, 5), stride=2, padding=2, groups=240),
    Shape("depthwise 3x3 s2, 56", (96, 96), (56, 56), stride=2, groups=96),
    Shape("pointwise, 28", (96, 192), (28, 28), (1, 1), padding=0),
    Shape("patches 16x16, 224", (3, 384), (224, 224), (16, 16), stride=16, padding=0),
    Shape("1d k5, 4000", (64, 64), (1, 4000), (1, 5), padding=2),
)


def main(argv: list[str]) -> None:
    del argv
    torch.set_grad_enabled(False)
    shims = ShimLibrary(_library_path())
    rows: list[list[str | float]] = [["shape", "layout", "eager", "ours", "ratio", "GFLOP/s"]]
    for shape in SHAPES:
        if _SHAPES.value in shape.name:
            for layout in _LAYOUTS.value:
                logging.info("%s, %s", shape.name, layout)
                rows.append([shape.name, layout, *measure(shims, shape, layout)])
    print(f"{torch.get_num_threads()} threads; microseconds a call\n{text_table(rows, left=2)}")
    if ratios := [float(row[4]) for row in rows[1:]]:
        print(f"geometric mean of {len(ratios)} ratios: {statistics.geometric_mean(ratios):.3f}")


def _library_path() -> str:
    beside = pathlib.Path(cpu_runtime.__file__).parent / "libcpu_backend.so"
    return os.environ.get("PTERON_CPU_BACKEND_LIBRARY", str(beside))


def measure(shims: ShimLibrary, shape: Shape, layout: str) -> tuple[float, ...]:
    """Microseconds of eager and ours, ours over eager's, and our GFLOP/s."""
    torch.manual_seed(0)
    memory_format = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    padding = [shape.padding if size > 1 else 0 for size in shape.size]
    arguments = ([shape.stride] * 2, padding, [shape.dilation] * 2, False, [0, 0], shape.groups)
    x = torch.randn(shape.batch, shape.channels[0], *shape.size)
    weight = torch.randn(shape.channels[1], shape.channels[0] // shape.groups, *shape.kernel)
    bias = torch.randn(shape.channels[1])
    x, weight = (t.to(memory_format=memory_format) for t in (x, weight))

    expected = torch.ops.aten.convolution(x, weight, bias, *arguments)
    with shims.prepared("cpu_convolution", x, weight, Optional(bias), *arguments) as ours:
        actual = ours.result()
        error = float((actual - expected).abs().max() / expected.abs().max())
        if not (error < 1e-4 and actual.stride() == expected.stride()):
            raise ValueError(f"{shape.name}, {layout}: relative error {error:.1e}")
        theirs = functools.partial(torch.ops.aten.convolution, x, weight, bias, *arguments)
        turns = {"eager": _turn(theirs), "ours": _turn(ours.run)}
        statistic = min if _STATISTIC.value == "minimum" else statistics.median
        theirs_us, ours_us = map(statistic, by_turns(turns, _ROUNDS.value).values())
    flops = 2 * expected.numel() * math.prod(weight.shape[1:])
    return theirs_us, ours_us, ours_us / theirs_us, flops / ours_us / 1e3


def _turn(call: Callable[[], object]) -> Callable[[], float]:
    """A turn of as many calls as `--min_round_ms` takes; microseconds a call."""

    def turn(count: int) -> float:
        time.sleep(_PAUSE_MS.value / 1e3)
        call()
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count * 1e6

    return functools.partial(turn, max(1, round(_MIN_ROUND_MS.value * 1e3 / turn(1))))


if __name__ == "__main__":
    app.run(main)
