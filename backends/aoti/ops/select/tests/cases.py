"""Single elements of rows, by their rank or frequency."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.sort.tests.cases import with_ties, without_ties
from pteron.backends.aoti.ops.tests.case import *


def cases() -> Iterator[Json]:
    large = Formula(7, 5001, of=(7919, 1, 100003, -50000, 1), dtype=torch.float32)
    wrong = numbers(2, 3)
    for shim in ("kthvalue", "median_dim", "nanmedian_dim", "mode"):
        k = (2,) if shim == "kthvalue" else ()
        for dtype in REAL:
            # Of equal elements any may be found.
            ties = (1,) if dtype == torch.uint8 else ()
            for layout, x in layouts(without_ties(dtype)):
                keepdim = layout in ("row_major", "gaps")
                name = f"{short(dtype)}/{layout}"
                yield case(name, shim, x, *k, DIMENSION[layout], keepdim, unchecked=ties)
            name = f"{short(dtype)}/ties"
            yield case(name, shim, with_ties(dtype), *k, 1, False, unchecked=[1])
        yield case("no_dimensions", shim, torch.tensor(3.0), *[1 for _ in k], 0, False)
        yield case("no_rows", shim, torch.zeros(0, 2), *k, 1, False)
        yield case("large", shim, large, *[2000 for _ in k], 1, False)
        yield error("dim", shim, wrong, *k, 2, False, parts=["dimension 2", "rank 2"])
        yield error(
            "empty", shim, wrong[:, :0], *k, 1, False, parts=["float32[2, 0]", "dimension 1"]
        )
        complex_numbers = numbers(3, dtype=torch.complex64)
        yield error("complex", shim, complex_numbers, *k, 0, False, parts=["complex64[3]", "order"])
    yield case("bool", "mode", numbers(3, 5, dtype=torch.bool), 1, False, unchecked=[1])
    x = torch.tensor([[1.0, 2, 2, 1, 0], [3, -0.0, 3, 0.0, -1]])
    yield case("frequency", "mode", x, 1, False)
    yield error("k", "kthvalue", wrong, 4, 1, False, parts=["found k 4, expected 1 to 3"])
    yield error("k_of_0", "kthvalue", wrong, 0, 1, False, parts=["found k 0"])

    for shim in ("median", "nanmedian"):
        for name, x in variants(REAL, make=without_ties):
            yield case(name, shim, x)
        yield case("nan", shim, with_ties(torch.float32))
        yield case("nothing_but_nan", shim, torch.full((2, 2), float("nan")))
        yield case("no_dimensions", shim, torch.tensor(3.0))
        yield case("empty", shim, torch.zeros(2, 0))
        yield error("of_no_integers", shim, torch.zeros(0).int(), parts=["int32[0]", "elements"])
        yield error("complex", shim, complex_numbers, parts=["complex64[3]", "order"])
