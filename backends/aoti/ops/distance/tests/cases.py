"""Distances between rows."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *

_P = (0.0, 1.0, 2.0, 3.5, 0.5, float("inf"))


def cases() -> Iterator[Json]:
    for dtype in (torch.float32, torch.float64):
        for p in _P:
            name = f"{short(dtype)}/{p}"
            a, b = numbers(5, 3, dtype=dtype), numbers(6, 3, dtype=dtype, seed=1)
            b[2] = a[3]
            yield case(name, "_cdist_forward", a, b, p, None, wide=True)
            yield case(name, "_pdist_forward", b, p, wide=True)
    for layout, x in layouts(numbers(2, 5, 3)):
        yield case(layout, "_cdist_forward", x, numbers(2, 6, 3, seed=1), 2.0, 2, wide=True)
        yield case(
            f"{layout}/right", "_cdist_forward", numbers(2, 4, 3, seed=1), x, 1.0, 1, wide=True
        )
    for p in (1.0, 2.0, 3.5):
        x1, x2 = numbers(2, 1, 5, 3), numbers(4, 6, 3, seed=1)
        yield case(f"broadcast/{p}", "_cdist_forward", x1, x2, p, None, wide=True)
        yield case(f"broadcast/swapped/{p}", "_cdist_forward", x2, x1, p, None, wide=True)
        yield case(f"no_rows/{p}", "_cdist_forward", numbers(0, 3), numbers(6, 3), p, None)
        yield case(f"no_columns/{p}", "_cdist_forward", numbers(2, 4, 0), numbers(2, 3, 0), p, None)
        yield case(f"no_columns/{p}", "_pdist_forward", numbers(3, 0), p)
    yield case("no_batch", "_cdist_forward", numbers(0, 4, 3), numbers(0, 5, 3), 2.0, None)
    for rows in (0, 1, 2):
        yield case(f"{rows}_rows", "_pdist_forward", numbers(rows, 3), 2.0, wide=True)
    large = Formula(300, 7, of=(7919, 1, 100003, -50000, 0.001), dtype=torch.float32)
    yield case("large", "_cdist_forward", large, large, 1.0, None, wide=True)
    yield case("large", "_pdist_forward", large, 2.0, wide=True)

    x = numbers(2, 3)
    yield error("p", "_cdist_forward", x, x.clone(), -1.0, None, parts=["found p -1"])
    yield error("p_nan", "_pdist_forward", x, float("nan"), parts=["found p nan"])
    yield error("dtype", "_pdist_forward", x.half(), 2.0, parts=["found float16[2, 3]"])
    yield error("rank", "_pdist_forward", numbers(2, 3, 4), 2.0, parts=["found self float32[2, 3"])
    for name, other, part in (
        ("columns", numbers(2, 4), "x2 float32[2, 4]"),
        ("dtypes", x.double(), "x2 float64[2, 3]"),
        ("rank", numbers(3), "x2 float32[3]"),
        ("null", None, "x2 is a null handle"),
    ):
        yield error(name, "_cdist_forward", x, other, 2.0, None, parts=[part])
    batches = numbers(2, 1, 3), numbers(3, 1, 3)
    yield error(
        "batches", "_cdist_forward", *batches, 2.0, None, parts=["does not broadcast with [2]"]
    )
