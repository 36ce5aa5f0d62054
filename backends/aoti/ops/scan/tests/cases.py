"""cumsum, cumprod, cummin, cummax and others."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.sort.tests.cases import with_ties
from pteron.backends.aoti.ops.tests.case import *

_DTYPES = (*REAL, torch.bool)


def cases() -> Iterator[Json]:
    for shim in ("cumsum", "cumprod"):
        for dtype in _DTYPES:
            for layout, x in layouts(numbers(3, 4, 5, dtype=dtype)):
                dim = DIMENSION[layout]
                yield case(f"{short(dtype)}/{layout}", shim, x, dim, None, wide=True)
            for out in (torch.float32, torch.int64):
                name = f"{short(dtype)}/as_{short(out)}"
                yield case(name, shim, numbers(2, 6, dtype=dtype), 1, out, wide=True)
        yield case("no_dimensions", shim, torch.tensor(3.0), 0, None)
        yield case("empty", shim, torch.zeros(2, 0), 1, None)
        yield error("dim", shim, numbers(2, 3), 2, None, parts=["dimension 2", "rank 2"])
        yield error("dtype", shim, numbers(2), 0, 99, parts=["dtype 99"])
        x = numbers(3, dtype=torch.complex64)
        yield error("complex", shim, x, 0, None, parts=["found self complex64[3]", "real"])
    large = Formula(3, 70001, of=(31, 7, 127, -63, 0.125), dtype=torch.float32)
    yield case("large", "cumsum", large, 1, None, wide=True)

    x = numbers(4, 6) * 100
    x[0, 0] = -float("inf")
    x[1, 2] = float("inf")
    x[2, 1] = float("nan")
    for dtype in FLOATING:
        for dim in (0, 1):
            name = f"{short(dtype)}/{dim}"
            yield case(name, "logcumsumexp", (x / 8).to(dtype), dim, wide=True, tolerance=8e-3)
    yield case("far_apart", "logcumsumexp", x, 1, wide=True)
    yield error("dim", "logcumsumexp", x, 2, parts=["dimension 2"])
    yield error("integers", "logcumsumexp", x.int(), 0, parts=["found self int32[4, 6]"])

    for shim in ("cummax", "cummin"):
        for dtype in REAL:
            for layout, x in layouts(with_ties(dtype)):
                dim = DIMENSION[layout]
                yield case(f"{short(dtype)}/{layout}", shim, x, dim)
        yield case("no_dimensions", shim, torch.tensor(3.0), 0)
        yield case("empty", shim, torch.zeros(2, 0), 0)
        yield error("dim", shim, numbers(2, 3), 2, parts=["dimension 2"])
