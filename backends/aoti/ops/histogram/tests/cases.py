"""How many numbers there are of each kind."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *


def cases() -> Iterator[Json]:
    for name, x in variants(FLOATING, 6, 7):
        for bins, low, high in ((10, -1.0, 1.5), (7, 0.0, 0.0), (1, -3.0, 3.0)):
            yield case(f"{name}/{bins}", "histc", x, bins, low, high)
    yield case("one_number", "histc", torch.full((3,), 2.5), 4, 0.0, 0.0)
    yield case("no_numbers", "histc", torch.zeros(0), 4, 0.0, 0.0)
    x = torch.tensor([float("nan"), 0.25, float("inf"), 2.0, 0.0])
    yield case("outside", "histc", x, 4, 0.0, 2.0)
    large = Formula(70001, of=(31, 7, 1271, -600, 0.5), dtype=torch.float32)
    yield case("large", "histc", large, 3000, 0.0, 0.0)
    yield error("bins", "histc", x, 0, 0.0, 1.0, parts=["found 0 bins"])
    yield error("range", "histc", x, 3, 1.0, 0.0, parts=["from 1 to 0"])
    yield error("integers", "histc", x[3:].int(), 3, 0.0, 1.0, parts=["found self int32[2]"])
    yield error("infinite", "histc", x, 3, 0.0, 0.0, parts=["expected finite"], host=True)

    for dtype in INTEGERS:
        for layout, x in layouts(numbers(9, dtype=dtype).abs()):
            yield case(f"{short(dtype)}/{layout}", "bincount", x, None, 0)
            yield case(f"{short(dtype)}/{layout}/long", "bincount", x, None, 20)
        for weights in (*FLOATING, torch.int64):
            name = f"{short(dtype)}/weights/{short(weights)}"
            yield case(name, "bincount", x, numbers(9, dtype=weights), 3, tolerance=1e-6)
    wide = numbers(18, dtype=torch.int64).abs()[::2]
    yield case("gaps", "bincount", wide, numbers(18)[1::2], 0, tolerance=1e-6)
    none = torch.zeros(0, dtype=torch.int64)
    yield case("no_numbers", "bincount", none, None, 0)
    yield case("no_numbers/long", "bincount", none, None, 3)
    large = Formula(70001, of=(31, 7, 1271, 0, 1), dtype=torch.int32)
    yield case("large", "bincount", large, None, 0)
    yield error("negative", "bincount", x.long() - 1, None, 0, parts=["numbers from -1"])
    yield error("dim", "bincount", wide.view(3, 3), None, 0, parts=["found self int64[3, 3]"])
    yield error("dtype", "bincount", numbers(3), None, 0, parts=["found self float32[3]"])
    yield error("minlength", "bincount", x, None, -1, parts=["minlength -1"])
    yield error("weights", "bincount", x, numbers(3), 0, parts=["found weights float32[3]"])
