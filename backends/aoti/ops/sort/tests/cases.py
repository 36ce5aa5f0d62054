"""Sorting along a dimension."""

from collections.abc import Iterator

import torch

from pteron.backends.aoti.ops.tests.case import *

_DTYPES = (*REAL, torch.bool)


def with_ties(dtype: torch.dtype) -> torch.Tensor:
    x = numbers(3, 4, 5, dtype=dtype)
    if dtype.is_floating_point:
        x = (x / 2).round()
        x[2, 3, 4] = float("nan")
        x[0, 0, 0] = float("inf")
        x[1, 2] = -0.0
    return x


def without_ties(dtype: torch.dtype) -> torch.Tensor:
    x = torch.randperm(60, generator=torch.Generator().manual_seed(1)).view(3, 4, 5) - 30
    return x.abs().to(dtype) if dtype == torch.uint8 else x.to(dtype)


def cases() -> Iterator[Json]:
    for dtype in _DTYPES:
        for descending in (False, True):
            for layout, x in layouts(with_ties(dtype)):
                dim = DIMENSION[layout]
                name = f"{short(dtype)}/{layout}/{'descending' if descending else 'ascending'}"
                yield case(name, "sort_stable", x, True, dim, descending)
    yield case("no_dimensions", "sort_stable", torch.tensor(3.0), None, 0, False)
    yield case("empty", "sort_stable", torch.zeros(2, 0), None, 1, False)
    yield case("no_rows", "sort_stable", torch.zeros(0, 2), None, 1, False)
    large = Formula(7, 5000, of=(7919, 1, 100003, -50000, 1), dtype=torch.float32)
    yield case("large", "sort_stable", large, True, 1, True)
    yield case("default", "sort", with_ties(torch.float32), 1, True, unchecked=[1])
    for shim, rest in (("sort", ()), ("sort_stable", (True,))):
        yield error("dim", shim, numbers(2, 3), *rest, 2, False, parts=["dimension 2", "rank 2"])
        x = numbers(3, dtype=torch.complex64)
        yield error("complex", shim, x, *rest, 0, False, parts=["found self complex64[3]", "order"])
        yield error("null", shim, None, *rest, 0, False, parts=["self is a null handle"])

    for dtype in REAL:
        for largest in (False, True):
            for layout, x in layouts(without_ties(dtype)):
                k, dim = {"row_major": (1, 0), "swapped": (4, 2), "gaps": (4, 1)}.get(
                    layout, (0, -1)
                )
                name = f"{short(dtype)}/{layout}/{'largest' if largest else 'smallest'}"
                ties = (1,) if dtype == torch.uint8 else ()
                yield case(name, "topk", x, k, dim, largest, True, unchecked=ties)
    yield case("nan", "topk", with_ties(torch.float32), 3, 2, True, True, unchecked=[1])
    yield case("no_dimensions", "topk", torch.tensor(3.0), 1, 0, True, True)
    yield case("large", "topk", large, 100, 1, True, True, unchecked=[1])
    yield error("k", "topk", numbers(2, 3), 4, 1, True, True, parts=["found k 4, expected 0 to 3"])
    yield error("negative_k", "topk", numbers(2, 3), -1, 1, True, True, parts=["found k -1"])
    yield error("dim", "topk", numbers(2, 3), 1, -3, True, True, parts=["dimension -3"])
