"""Positions of numbers in sorted sequences."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *


def cases() -> Iterator[Json]:
    for dtype in REAL:
        boundaries = numbers(6, dtype=dtype, seed=1).sort().values
        for layout, x in layouts(torch.cat([numbers(2, 6, dtype=dtype), boundaries[None]])):
            flags = layout in ("gaps", "offset"), layout in ("swapped", "offset")
            yield case(f"{short(dtype)}/{layout}", "bucketize_Tensor", x, boundaries, *flags)
    boundaries = numbers(9, seed=1).sort().values
    yield case("gaps", "bucketize_Tensor", numbers(5), boundaries[::2], False, False)
    yield case("no_dimensions", "bucketize_Tensor", torch.tensor(0.5), boundaries, False, False)
    yield case("no_values", "bucketize_Tensor", torch.zeros(0, 2), boundaries, False, False)
    yield case("no_boundaries", "bucketize_Tensor", numbers(3), torch.zeros(0), False, True)
    # A number without dimensions is of no smaller type than its value needs.
    of_integers = numbers(5, dtype=torch.int64).sort().values
    yield case("mixed", "bucketize_Tensor", torch.tensor(2.5), of_integers, False, False)
    yield case("mixed_rows", "bucketize_Tensor", numbers(4), of_integers, False, True)
    large = Formula(5, 20001, of=(31, 7, 1271, -600, 0.5), dtype=torch.float32)
    yield case("large", "bucketize_Tensor", large, boundaries, True, False)
    matrix = numbers(2, 3)
    yield error(
        "boundaries", "bucketize_Tensor", matrix, matrix, False, False, parts=["found boundaries"]
    )

    unsorted = numbers(4, 9, seed=2)
    sorter = unsorted.argsort()
    for layout, x in layouts(numbers(4, 6)):
        x[1, 2] = float("nan")
        for side in (None, "left", "right"):
            for name, sequence, order in (
                ("rows", unsorted.sort().values, None),
                ("sorter", unsorted, sorter),
                ("row", unsorted[0].sort().values, None),
                ("sorter_of_row", unsorted[0], sorter[0]),
            ):
                right = side is None and layout == "gaps"
                arguments = (sequence, x, layout == "offset", right, side, order)
                yield case(f"{layout}/{side}/{name}", "searchsorted_Tensor", *arguments)
    swapped = unsorted.sort().values.t().contiguous().t()
    yield case("swapped", "searchsorted_Tensor", swapped, x, False, False, None, None)
    ends_in_nan = torch.tensor([1.0, 2, float("nan"), float("nan")])
    x = torch.tensor([1.5, float("nan"), float("inf")])
    for right in (False, True):
        yield case(f"nan/{right}", "searchsorted_Tensor", ends_in_nan, x, False, right, None, None)
    row, shim = boundaries, "searchsorted_Tensor"
    both = ["found side left and right 1"]
    yield error("side", shim, row, x, False, True, "left", None, parts=both)
    yield error("no_side", shim, row, x, False, False, "up", None, parts=["found side up"])
    yield error("sizes", shim, matrix, x, False, False, None, None, parts=["float32[2, 3]"])
    yield error("sorter", shim, row, x, False, False, None, sorter, parts=["found sorter int64"])
    outside = torch.tensor([0, 1, 4, 2])
    yield error(
        "index", shim, ends_in_nan, x, False, False, None, outside, parts=["index 4"], host=True
    )
    z = numbers(3, dtype=torch.complex64)
    yield error("complex", shim, row, z, False, False, None, None, parts=["complex64[3]", "order"])
